package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	_ "unsafe" // newManager is linked to a function that its package keeps for itself.

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
)

// newManager makes a manager in a folder of choice; NewManagerImpl knows kubelet's own folder only.
//
//go:linkname newManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newManager(logger klog.Logger, socket string, topology []cadvisor.Node, affinity topologymanager.Store) (*devicemanager.ManagerImpl, error)

// A request: op is admit, keep, start, remove, restart or capacity.
type request struct {
	Op        string    `json:"op"`
	Pod       *v1.Pod   `json:"pod"`
	UID       types.UID `json:"uid"`
	Container string    `json:"container"`
}

type answer struct {
	Error       string                                   `json:"error"`
	Options     *devicemanager.DeviceRunContainerOptions `json:"options,omitempty"`
	Capacity    map[string]int64                         `json:"capacity,omitempty"`
	Allocatable map[string]int64                         `json:"allocatable,omitempty"`
}

// node has a manager and the pods that are active, in the order in which they came.
type node struct {
	socket  string
	mutex   sync.Mutex
	pods    []*v1.Pod
	manager *devicemanager.ManagerImpl
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

var _ config.SourcesReady = ready{}

func newNode(plugins string) (*node, error) {
	made := &node{socket: filepath.Join(plugins, "kubelet.sock")}
	return made, made.start()
}

func (n *node) start() error {
	manager, err := newManager(klog.Background(), n.socket, nil, topologymanager.NewFakeManager())
	if err != nil {
		return err
	}
	n.mutex.Lock()
	n.manager = manager
	n.mutex.Unlock()
	running := containermap.NewContainerMap()
	return manager.Start(klog.Background(), n.active, ready{}, running, sets.New[string]())
}

func (n *node) active() []*v1.Pod {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return append([]*v1.Pod(nil), n.pods...)
}

func (n *node) answer(line []byte) answer {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	found, err := n.do(&asked)
	if err != nil {
		found.Error = err.Error()
	}
	return found
}

func (n *node) do(asked *request) (answer, error) {
	switch asked.Op {
	case "admit":
		return answer{}, n.admit(asked.Pod)
	case "keep":
		n.add(asked.Pod)
		return answer{}, nil
	case "start":
		return n.startContainer(asked.UID, asked.Container)
	case "remove":
		n.remove(asked.UID)
		return answer{}, nil
	case "restart":
		if err := n.manager.Stop(klog.Background()); err != nil {
			return answer{}, err
		}
		return answer{}, n.start()
	case "capacity":
		capacity, allocatable, _ := n.manager.GetCapacity()
		return answer{Capacity: amounts(capacity), Allocatable: amounts(allocatable)}, nil
	}
	return answer{}, fmt.Errorf("no such op: %q", asked.Op)
}

// admit allocates for init containers first, as kubelet's admission does.
func (n *node) admit(pod *v1.Pod) error {
	n.add(pod)
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if err := n.manager.Allocate(pod, &containers[i]); err != nil {
				n.remove(pod.UID)
				return err
			}
		}
	}
	return nil
}

func (n *node) startContainer(uid types.UID, name string) (answer, error) {
	for _, pod := range n.active() {
		for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range containers {
				if pod.UID == uid && containers[i].Name == name {
					options, err := n.manager.GetDeviceRunContainerOptions(context.Background(), pod, &containers[i])
					return answer{Options: options}, err
				}
			}
		}
	}
	return answer{}, fmt.Errorf("no active pod %s with a container %s", uid, name)
}

func (n *node) add(pod *v1.Pod) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.pods = append(n.pods, pod)
}

func (n *node) remove(uid types.UID) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	kept := n.pods[:0:0]
	for _, pod := range n.pods {
		if pod.UID != uid {
			kept = append(kept, pod)
		}
	}
	n.pods = kept
}

func amounts(list v1.ResourceList) map[string]int64 {
	found := map[string]int64{}
	for name, amount := range list {
		found[string(name)] = amount.Value()
	}
	return found
}
