// Command device_manager runs kubelet's own device manager and its pod-resources service.
//
// Each line of its input is one request in JSON, each line of its output the answer to it: pods are
// admitted, their containers started, pods removed, the manager restarted. What kubelet does besides
// is left out.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
)

const longestLine = 64 << 20

func main() {
	plugins := flag.String("device-plugins", "", "folder of the sockets of device plugins")
	resources := flag.String("pod-resources", "", "socket of the pod-resources service")
	flag.Parse()
	klog.LogToStderr(true)
	if err := serve(*plugins, *resources); err != nil {
		fmt.Fprintln(os.Stderr, "device_manager:", err)
		os.Exit(1)
	}
}

func serve(plugins, resources string) error {
	node, err := newNode(plugins)
	if err != nil {
		return err
	}
	if err := servePodResources(node, resources); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(answer{}); err != nil {
		return err
	}
	for lines.Scan() {
		if err := out.Encode(node.answer(lines.Bytes())); err != nil {
			return err
		}
	}
	return lines.Err()
}
