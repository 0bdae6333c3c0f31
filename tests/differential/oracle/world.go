package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// world is a framework around the objects of one case, and the plugins in it by name.
type world struct {
	pod       *v1.Pod
	nodes     []fwk.NodeInfo
	factory   *stillFactory
	framework framework.Framework
	plugins   map[string]fwk.Plugin
}

func newWorld(ctx context.Context, asked *question) (*world, error) {
	snapshot, err := snapshotOf(ctx, asked)
	if err != nil {
		return nil, err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	factory := newStillFactory(asked)
	claims, err := claimsManager(ctx, factory)
	if err != nil {
		return nil, err
	}
	made := &world{pod: asked.pod, nodes: nodes, factory: factory, plugins: map[string]fwk.Plugin{}}
	made.framework, err = frameworkruntime.NewFramework(ctx, made.registry(), &asked.profile,
		frameworkruntime.WithClientSet(noServer),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedDRAManager(claims),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodNominator(noNominations{}),
		frameworkruntime.WithParallelism(1),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
	)
	return made, err
}

// registry is kube-scheduler's, and remembers the plugins that it makes.
func (w *world) registry() frameworkruntime.Registry {
	wrapped := frameworkruntime.Registry{}
	for name, factory := range plugins.NewInTreeRegistry() {
		wrapped[name] = func(ctx context.Context, arguments runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, arguments, handle)
			w.plugins[name] = plugin
			return plugin, err
		}
	}
	return wrapped
}

// snapshotOf goes through the scheduler's cache, which knows nothing of pods that have ended.
func snapshotOf(ctx context.Context, asked *question) (*internalcache.Snapshot, error) {
	logger := klog.FromContext(ctx)
	known := internalcache.New(ctx, nil, utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload))
	for _, node := range asked.nodes {
		known.AddNode(logger, node)
	}
	for _, pod := range asked.pods {
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if pod.Spec.NodeName == "" || ended {
			continue
		}
		if err := known.AddPod(logger, pod); err != nil {
			return nil, err
		}
	}
	snapshot := internalcache.NewEmptySnapshot()
	return snapshot, known.UpdateSnapshot(logger, snapshot)
}

func claimsManager(ctx context.Context, factory *stillFactory) (fwk.SharedDRAManager, error) {
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		TaintInformer:            factory.Resource().V1beta2().DeviceTaintRules(),
		ClassInformer:            factory.Resource().V1().DeviceClasses(),
	})
	if err != nil {
		return nil, err
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	if classes, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache); ok {
		_, err = factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(classes)
	}
	return manager, err
}

// noNominations says that no other pod is nominated to any node.
type noNominations struct{}

func (noNominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (noNominations) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (noNominations) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (noNominations) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }
