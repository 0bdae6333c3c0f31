// What the conditions of admission policies cost, in the units in which kube-apiserver counts CEL.
//
// Reads {"policies": [...], "writes": {NAME: {"object": ..., "oldObject": ..., "operation": "CREATE",
// "subresource": "", "user": "..."}}} from standard input, all objects being pods, and writes
// {NAME: {POLICY: {"matches": true, "condition": 1234, "rest": 5678}}}: what its match conditions
// cost, and, where they hold, its validations with their messages, or its mutations.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

type policy struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		MatchConditions []admissionregistration.MatchCondition `json:"matchConditions"`
		Variables       []admissionregistration.Variable       `json:"variables"`
		Validations     []admissionregistration.Validation     `json:"validations"`
		Mutations       []admissionregistration.Mutation       `json:"mutations"`
	} `json:"spec"`
}

type write struct {
	Object      *corev1.Pod `json:"object"`
	OldObject   *corev1.Pod `json:"oldObject"`
	Operation   string      `json:"operation"`
	Subresource string      `json:"subresource"`
	User        string      `json:"user"`
}

type cost struct {
	Matches   bool  `json:"matches"`
	Condition int64 `json:"condition"`
	Rest      int64 `json:"rest"`
}

func main() {
	var asked struct {
		Policies []policy         `json:"policies"`
		Writes   map[string]write `json:"writes"`
	}
	check(json.NewDecoder(os.Stdin).Decode(&asked))
	found := map[string]map[string]cost{}
	for name, one := range asked.Writes {
		found[name] = map[string]cost{}
		for _, policy := range asked.Policies {
			found[name][policy.Metadata.Name] = measure(policy, one)
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func measure(policy policy, one write) cost {
	options := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	compiler, err := plugincel.NewCompositedCompiler(base)
	check(err)
	for _, variable := range policy.Spec.Variables {
		named := &validating.Variable{Name: variable.Name, Expression: variable.Expression}
		result := compiler.CompileAndStoreVariable(named, options, environment.StoredExpressions)
		if result.Error != nil {
			check(fmt.Errorf("%s: variable %s: %s", policy.Metadata.Name, variable.Name, result.Error.Detail))
		}
	}
	condition, matches := evaluate(compiler, conditions(policy), options, one)
	if !matches {
		return cost{Condition: condition}
	}
	found := cost{Matches: true, Condition: condition}
	for _, expressions := range [][]plugincel.ExpressionAccessor{validations(policy), messages(policy)} {
		more, _ := evaluate(compiler, expressions, options, one)
		found.Rest += more
	}
	options.HasPatchTypes = true
	for _, mutation := range policy.Spec.Mutations {
		expression := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
		evaluator := compiler.CompileMutatingEvaluator(expression, options, environment.StoredExpressions)
		attributes := attributesOf(one)
		ctx := compiler.CreateContext(context.Background())
		result, left, err := evaluator.ForInput(ctx, attributes, request(attributes), bindings(), namespace(), apiservercel.RuntimeCELCostBudget)
		check(err)
		check(result.Error)
		found.Rest += apiservercel.RuntimeCELCostBudget - left
	}
	return found
}

// evaluate returns the cost of these expressions, and whether all of them are true.
func evaluate(compiler *plugincel.CompositedCompiler, expressions []plugincel.ExpressionAccessor, options plugincel.OptionalVariableDeclarations, one write) (int64, bool) {
	evaluator := compiler.CompileCondition(expressions, options, environment.StoredExpressions)
	attributes := attributesOf(one)
	ctx := compiler.CreateContext(context.Background())
	results, left, err := evaluator.ForInput(ctx, attributes, request(attributes), bindings(), namespace(), apiservercel.RuntimeCELCostBudget)
	check(err)
	all := true
	for _, result := range results {
		all = all && result.Error == nil && result.EvalResult != nil && result.EvalResult.Value() == true
	}
	return apiservercel.RuntimeCELCostBudget - left, all
}

func conditions(policy policy) (found []plugincel.ExpressionAccessor) {
	for _, one := range policy.Spec.MatchConditions {
		found = append(found, &validating.ValidationCondition{Expression: one.Expression})
	}
	return found
}

func validations(policy policy) (found []plugincel.ExpressionAccessor) {
	for _, one := range policy.Spec.Validations {
		found = append(found, &validating.ValidationCondition{Expression: one.Expression})
	}
	return found
}

func messages(policy policy) (found []plugincel.ExpressionAccessor) {
	for _, one := range policy.Spec.Validations {
		if one.MessageExpression != "" {
			found = append(found, &validating.MessageExpressionCondition{MessageExpression: one.MessageExpression})
		}
	}
	return found
}

func attributesOf(one write) *admission.VersionedAttributes {
	var object, oldObject runtime.Object
	if one.Object != nil {
		one.Object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		object = one.Object
	}
	if one.OldObject != nil {
		one.OldObject.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		oldObject = one.OldObject
	}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	who := &user.DefaultInfo{Name: one.User}
	attributes := admission.NewAttributesRecord(object, oldObject, kind, "default", "p", resource, one.Subresource, admission.Operation(one.Operation), nil, false, who)
	return &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: object, VersionedOldObject: oldObject}
}

func request(attributes *admission.VersionedAttributes) *admissionv1.AdmissionRequest {
	resource, kind := attributes.GetResource(), attributes.GetKind()
	return plugincel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind))
}

func bindings() plugincel.OptionalVariableBindings {
	return plugincel.OptionalVariableBindings{}
}

func namespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
