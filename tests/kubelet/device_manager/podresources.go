package main

import (
	"context"
	"net"
	"os"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
)

// servePodResources serves kubelet's own implementation on the socket, for devices alone.
func servePodResources(n *node, socket string) error {
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	providers := podresources.PodResourcesProviders{
		Pods: pods{n}, Devices: devices{n}, Cpus: nothing{}, Memory: nothing{}, DynamicResources: nothing{},
	}
	service := podresources.NewV1PodResourcesServer(context.Background(), providers)
	podresourcesapi.RegisterPodResourcesListerServer(server, service)
	go func() { _ = server.Serve(listener) }()
	return nil
}

type pods struct{ *node }

func (p pods) GetActivePods() []*v1.Pod { return p.active() }
func (p pods) GetPods() []*v1.Pod       { return p.active() }
func (p pods) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range p.active() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

type devices struct{ *node }

func (d devices) UpdateAllocatedDevices() { d.manager.UpdateAllocatedDevices() }
func (d devices) GetDevices(uid, container string) []*podresourcesapi.ContainerDevices {
	return entries(d.manager.GetDevices(uid, container))
}
func (d devices) GetAllocatableDevices() []*podresourcesapi.ContainerDevices {
	return entries(d.manager.GetAllocatableDevices())
}

// entries has one entry for each device, as kubelet's answers do since 1.21.
func entries(found devicemanager.ResourceDeviceInstances) []*podresourcesapi.ContainerDevices {
	var listed []*podresourcesapi.ContainerDevices
	for resource, instances := range found {
		for id := range instances {
			listed = append(listed, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
		}
	}
	return listed
}

type nothing struct{}

func (nothing) GetCPUs(string, string) []int64                              { return nil }
func (nothing) GetAllocatableCPUs() []int64                                 { return nil }
func (nothing) GetMemory(string, string) []*podresourcesapi.ContainerMemory { return nil }
func (nothing) GetAllocatableMemory() []*podresourcesapi.ContainerMemory    { return nil }
func (nothing) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}
