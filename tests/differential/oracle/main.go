// Command oracle answers scheduling questions with kube-scheduler's own framework and plugins.
//
// Each line of its input is one case in JSON: objects of the Kubernetes API, one pod that has no node
// yet, and perhaps a KubeSchedulerConfiguration. For each it prints one line in the same order: what
// the plugins said of each node, and which pods preemption would evict. The same line gets the same
// answer.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

const (
	longestLine = 64 << 20
	// Cases that are read before the first of them is answered.
	ahead = 64
)

func main() {
	workers := flag.Int("workers", 1, "cases that are answered at a time")
	flag.Parse()
	klog.SetLogger(klog.Logger{})
	metrics.Register()
	if err := answerAll(*workers); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// answerAll keeps the order of the lines, whichever worker ends first.
func answerAll(workers int) error {
	turns := make(chan struct{}, workers)
	pending := make(chan chan []byte, ahead)
	failed := make(chan error, 1)
	go func() {
		defer close(pending)
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(make([]byte, 1<<20), longestLine)
		for lines.Scan() {
			line := append([]byte(nil), lines.Bytes()...)
			done := make(chan []byte, 1)
			pending <- done
			turns <- struct{}{}
			go func() {
				defer func() { <-turns }()
				done <- answerLine(line)
			}()
		}
		failed <- lines.Err()
	}()
	out := bufio.NewWriter(os.Stdout)
	for done := range pending {
		if _, err := out.Write(append(<-done, '\n')); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return <-failed
}

// answerLine never fails: what is wrong with a case is its answer.
func answerLine(line []byte) (written []byte) {
	defer func() {
		if found := recover(); found != nil {
			written = failure(fmt.Errorf("panic: %v\n%s", found, debug.Stack()))
		}
	}()
	one, err := readCase(line)
	if err != nil {
		return failure(err)
	}
	answered, err := answer(one)
	if err != nil {
		return failure(err)
	}
	written, err = json.Marshal(answered)
	if err != nil {
		return failure(err)
	}
	return written
}

func failure(err error) []byte {
	written, _ := json.Marshal(map[string]string{"error": err.Error()})
	return written
}
