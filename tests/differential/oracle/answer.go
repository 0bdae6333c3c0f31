package main

import (
	"context"
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// picks is how often a tie is asked for, so that no node of it stays unknown.
const picks = 200

type (
	verdict struct {
		Code    string   `json:"code"`
		Reasons []string `json:"reasons,omitempty"`
	}
	candidate struct {
		Node       string   `json:"node"`
		Victims    []string `json:"victims"`
		Violations int      `json:"violations"`
	}
	points struct {
		Raw        map[string]int64 `json:"raw"`
		Normalised map[string]int64 `json:"normalised"`
		Weight     int              `json:"weight"`
	}
	answered struct {
		// What each filter said: by node, by plugin. Success is left out.
		Filters map[string]map[string]verdict `json:"filters"`
		// By plugin, what its PreFilter said, unless that was success.
		PreFilters map[string]verdict `json:"preFilters,omitempty"`
		// The plugins whose PreFilter refused the pod, in their order.
		Refusing []string `json:"refusing,omitempty"`
		// The nodes that PreFilters left, by plugin, where they did not leave all.
		Narrowed map[string][]string `json:"narrowed,omitempty"`
		// What the scheduling cycle made of it for each node.
		Nodes    map[string]verdict `json:"nodes"`
		Feasible []string           `json:"feasible"`
		// By score plugin. Only of feasible nodes.
		Scores map[string]points `json:"scores,omitempty"`
		Totals map[string]int64  `json:"totals,omitempty"`
		// The feasible nodes with the highest total.
		Best []string `json:"best,omitempty"`
		// For a pod that fits nowhere: the condition's message.
		Message    string      `json:"message,omitempty"`
		Candidates []candidate `json:"candidates,omitempty"`
		// The candidates of which kube-scheduler takes any.
		Nominated []string `json:"nominated,omitempty"`
	}
)

func answer(asked *question) (*answered, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	defer cancel()
	world, err := newWorld(ctx, asked)
	if err != nil {
		return nil, err
	}
	made := &answered{
		Filters:    map[string]map[string]verdict{},
		PreFilters: map[string]verdict{},
		Narrowed:   map[string][]string{},
		Nodes:      map[string]verdict{},
		Feasible:   []string{},
	}
	world.askFilters(ctx, made)
	if err := world.schedule(ctx, made); err != nil {
		return nil, err
	}
	return made, nil
}

// askFilters puts every filter's question, whatever those before it said.
func (w *world) askFilters(ctx context.Context, made *answered) {
	for _, node := range w.nodes {
		made.Filters[node.Node().Name] = map[string]verdict{}
	}
	plugins := w.framework.ListPlugins()
	failed := sets.New[string]()
	state := framework.NewCycleState()
	for _, one := range plugins.PreFilter.Enabled {
		result, status := w.plugins[one.Name].(fwk.PreFilterPlugin).PreFilter(ctx, state, w.pod, w.nodes)
		if !status.IsSuccess() {
			failed.Insert(one.Name)
			made.PreFilters[one.Name] = verdictOf(status)
			if !status.IsSkip() {
				made.Refusing = append(made.Refusing, one.Name)
			}
		} else if !result.AllNodes() {
			made.Narrowed[one.Name] = sets.List(result.NodeNames)
		}
	}
	for _, one := range plugins.Filter.Enabled {
		if failed.Has(one.Name) {
			continue
		}
		for _, node := range w.nodes {
			status := w.plugins[one.Name].(fwk.FilterPlugin).Filter(ctx, state, w.pod, node.Snapshot())
			if !status.IsSuccess() {
				made.Filters[node.Node().Name][one.Name] = verdictOf(status)
			}
		}
	}
}

// schedule goes through a scheduling cycle as kube-scheduler does, with all nodes evaluated.
func (w *world) schedule(ctx context.Context, made *answered) error {
	if len(w.nodes) == 0 {
		made.Message = "no nodes available to schedule pods"
		return nil
	}
	state := framework.NewCycleState()
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	feasible, err := w.feasible(ctx, state, &diagnosis)
	if err != nil {
		return err
	}
	for _, node := range w.nodes {
		made.Nodes[node.Node().Name] = verdictOf(diagnosis.NodeToStatus.Get(node.Node().Name))
	}
	for _, node := range feasible {
		made.Feasible = append(made.Feasible, node.Node().Name)
		made.Nodes[node.Node().Name] = verdict{Code: fwk.Success.String()}
	}
	if len(feasible) > 0 {
		return w.score(ctx, state, feasible, made)
	}
	failure := &framework.FitError{Pod: w.pod, NumAllNodes: len(w.nodes), Diagnosis: diagnosis}
	if err := w.preempt(ctx, state, failure, made); err != nil {
		return err
	}
	made.Message = failure.Error()
	return nil
}

func (w *world) feasible(ctx context.Context, state fwk.CycleState, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	result, status, narrowing := w.framework.RunPreFilterPlugins(ctx, state, w.pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, status.AsError()
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		return nil, nil
	}
	if !result.AllNodes() {
		reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(narrowing))
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason))
	}
	var found []fwk.NodeInfo
	for _, node := range w.nodes {
		if !result.AllNodes() && !result.NodeNames.Has(node.Node().Name) {
			continue
		}
		status := w.framework.RunFilterPluginsWithNominatedPods(ctx, state, w.pod, node)
		switch {
		case status.IsSuccess():
			found = append(found, node)
		case status.IsRejected():
			diagnosis.NodeToStatus.Set(node.Node().Name, status)
		default:
			return nil, status.AsError()
		}
	}
	return found, nil
}

func (w *world) score(ctx context.Context, state fwk.CycleState, feasible []fwk.NodeInfo, made *answered) error {
	if status := w.framework.RunPreScorePlugins(ctx, state, w.pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	made.Scores = map[string]points{}
	for _, one := range w.framework.ListPlugins().Score.Enabled {
		if state.GetSkipScorePlugins().Has(one.Name) {
			continue
		}
		plugin := w.plugins[one.Name].(fwk.ScorePlugin)
		given := points{Raw: map[string]int64{}, Normalised: map[string]int64{}, Weight: int(one.Weight)}
		var list fwk.NodeScoreList
		for _, node := range feasible {
			raw, status := plugin.Score(ctx, state, w.pod, node)
			if !status.IsSuccess() {
				return fmt.Errorf("%s: %w", one.Name, status.AsError())
			}
			given.Raw[node.Node().Name] = raw
			list = append(list, fwk.NodeScore{Name: node.Node().Name, Score: raw})
		}
		if extension := plugin.ScoreExtensions(); extension != nil {
			if status := extension.NormalizeScore(ctx, state, w.pod, list); !status.IsSuccess() {
				return fmt.Errorf("%s: %w", one.Name, status.AsError())
			}
		}
		for _, scored := range list {
			given.Normalised[scored.Name] = scored.Score
		}
		made.Scores[one.Name] = given
	}
	totals, status := w.framework.RunScorePlugins(ctx, state, w.pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	made.Totals = map[string]int64{}
	for at, total := range totals {
		made.Totals[total.Name] = total.TotalScore
		switch {
		case at == 0 || total.TotalScore > made.Totals[made.Best[0]]:
			made.Best = []string{total.Name}
		case total.TotalScore == made.Totals[made.Best[0]]:
			made.Best = append(made.Best, total.Name)
		}
	}
	sort.Strings(made.Best)
	return nil
}

// preempt asks DefaultPreemption for all of its candidates, and for the message if there are none.
func (w *world) preempt(ctx context.Context, state fwk.CycleState, failure *framework.FitError, made *answered) error {
	plugin, ok := w.plugins[names.DefaultPreemption].(*defaultpreemption.DefaultPreemption)
	if !ok {
		return nil
	}
	statuses := failure.Diagnosis.NodeToStatus
	nominated := statuses.Get(w.pod.Status.NominatedNodeName)
	if able, _ := plugin.PodEligibleToPreemptOthers(ctx, w.pod, nominated); !able {
		w.explain(ctx, state, failure)
		return nil
	}
	potential, err := statuses.NodesForStatusCode(w.framework.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return err
	}
	budgets, err := w.budgets()
	if err != nil {
		return err
	}
	found, _, err := plugin.Evaluator.DryRunPreemption(ctx, state, w.pod, potential, budgets, 0, int32(len(potential)))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		w.explain(ctx, state, failure)
		return nil
	}
	for _, one := range found {
		given := candidate{Node: one.Name(), Violations: int(one.Victims().NumPDBViolations)}
		for _, victim := range one.Victims().Pods {
			given.Victims = append(given.Victims, keyOf(victim))
		}
		made.Candidates = append(made.Candidates, given)
	}
	sort.Slice(made.Candidates, func(i, j int) bool { return made.Candidates[i].Node < made.Candidates[j].Node })
	picked := sets.New[string]()
	for range picks {
		picked.Insert(plugin.Evaluator.SelectCandidate(ctx, found).Name())
	}
	made.Nominated = sets.List(picked)
	return nil
}

// explain lets all PostFilter plugins say why they are of no help, which changes nothing.
func (w *world) explain(ctx context.Context, state fwk.CycleState, failure *framework.FitError) {
	_, status := w.framework.RunPostFilterPlugins(ctx, state, w.pod, failure.Diagnosis.NodeToStatus)
	failure.Diagnosis.PostFilterMsg = status.Message()
}

func (w *world) budgets() ([]*policyv1.PodDisruptionBudget, error) {
	found, err := w.factory.Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found, err
}

func verdictOf(status *fwk.Status) verdict {
	return verdict{Code: status.Code().String(), Reasons: status.Reasons()}
}

func keyOf(pod *v1.Pod) string {
	return pod.Namespace + "/" + pod.Name
}
