package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// question is one case: a cluster, and a pod that is to be placed in it.
type question struct {
	nodes   []*v1.Node
	pods    []*v1.Pod
	others  []runtime.Object
	pod     *v1.Pod
	profile config.KubeSchedulerProfile
}

const defaultConfig = `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}`

// readCase decodes the objects of a line; the first profile of the configuration counts.
func readCase(line []byte) (*question, error) {
	var written struct {
		Objects []json.RawMessage `json:"objects"`
		Pod     json.RawMessage   `json:"pod"`
		Config  json.RawMessage   `json:"config"`
	}
	if err := json.Unmarshal(line, &written); err != nil {
		return nil, err
	}
	asked := &question{}
	for _, one := range written.Objects {
		object, err := decoded(one)
		if err != nil {
			return nil, err
		}
		asked.add(object)
	}
	incoming, err := decoded(written.Pod)
	if err != nil {
		return nil, err
	}
	pod, ok := incoming.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("the incoming object is a %T", incoming)
	}
	asked.pod = pod
	asked.profile, err = readProfile(written.Config)
	return asked, err
}

func (asked *question) add(object runtime.Object) {
	switch one := object.(type) {
	case *v1.Node:
		asked.nodes = append(asked.nodes, one)
	case *v1.Pod:
		asked.pods = append(asked.pods, one)
	default:
		asked.others = append(asked.others, one)
	}
}

func decoded(written []byte) (runtime.Object, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(written, nil, nil)
	return object, err
}

func readProfile(written []byte) (config.KubeSchedulerProfile, error) {
	if len(written) == 0 || string(written) == "null" {
		written = []byte(defaultConfig)
	}
	object, _, err := configscheme.Codecs.UniversalDecoder().Decode(written, nil, nil)
	if err != nil {
		return config.KubeSchedulerProfile{}, err
	}
	read, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return config.KubeSchedulerProfile{}, fmt.Errorf("the configuration is a %T", object)
	}
	return read.Profiles[0], nil
}

// noServer is a client that is asked for nothing.
var noServer = fake.NewClientset()

// stillFactory makes informers that hold the case's objects and never change.
type stillFactory struct {
	informers.SharedInformerFactory
	objects map[reflect.Type][]runtime.Object
	made    map[reflect.Type]cache.SharedIndexInformer
}

func newStillFactory(asked *question) *stillFactory {
	made := &stillFactory{
		SharedInformerFactory: informers.NewSharedInformerFactory(noServer, 0),

		objects: map[reflect.Type][]runtime.Object{},
		made:    map[reflect.Type]cache.SharedIndexInformer{},
	}
	for _, node := range asked.nodes {
		made.hold(node)
	}
	for _, pod := range asked.pods {
		made.hold(pod)
	}
	made.hold(asked.pod)
	for _, other := range asked.others {
		made.hold(other)
	}
	return made
}

func (f *stillFactory) hold(object runtime.Object) {
	kind := reflect.TypeOf(object)
	f.objects[kind] = append(f.objects[kind], object)
}

// InformerFor fills an informer that is never started.
func (f *stillFactory) InformerFor(object runtime.Object, make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kind := reflect.TypeOf(object)
	if informer, exists := f.made[kind]; exists {
		return informer
	}
	informer := &stillInformer{SharedIndexInformer: make(noServer, 0)}
	for _, one := range f.objects[kind] {
		if err := informer.GetIndexer().Add(one); err != nil {
			panic(err)
		}
	}
	f.made[kind] = informer
	return informer
}

func (f *stillFactory) Core() core.Interface         { return core.New(f, v1.NamespaceAll, nil) }
func (f *stillFactory) Apps() apps.Interface         { return apps.New(f, v1.NamespaceAll, nil) }
func (f *stillFactory) Policy() policy.Interface     { return policy.New(f, v1.NamespaceAll, nil) }
func (f *stillFactory) Storage() storage.Interface   { return storage.New(f, v1.NamespaceAll, nil) }
func (f *stillFactory) Resource() resource.Interface { return resource.New(f, v1.NamespaceAll, nil) }
func (f *stillFactory) Scheduling() scheduling.Interface {
	return scheduling.New(f, v1.NamespaceAll, nil)
}

// stillInformer calls new handlers at once, in the order of the objects' names.
type stillInformer struct {
	cache.SharedIndexInformer
}

func (i *stillInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	keys := i.GetIndexer().ListKeys()
	sort.Strings(keys)
	for _, key := range keys {
		object, _, err := i.GetIndexer().GetByKey(key)
		if err != nil {
			return nil, err
		}
		handler.OnAdd(object, true)
	}
	return called{}, nil
}

func (i *stillInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *stillInformer) HasSynced() bool { return true }

// called is a registration whose handler has had all there is.
type called struct{}

func (called) HasSynced() bool                     { return true }
func (called) HasSyncedChecker() cache.DoneChecker { return called{} }
func (called) Name() string                        { return "objects of a case" }
func (called) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
