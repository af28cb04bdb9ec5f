package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// targetLabels are the labels that Prometheus adds to every sample of a scrape.
var targetLabels = []string{"job", "instance"}

// checkExpression returns the names in an expression that are not exported.
func (e exported) checkExpression(text string) (wrong []string) {
	found := parse(text)
	if len(found.selectors) == 0 {
		wrong = append(wrong, "the expression names no metric")
	}
	for _, name := range found.labels {
		if !slices.Contains(targetLabels, name) && !slices.ContainsFunc(found.selectors, func(s selector) bool { return e[s.metric][name] != nil }) {
			wrong = append(wrong, "no metric of the expression has the label "+name)
		}
	}
	for _, s := range found.selectors {
		labels, ok := e[s.metric]
		if !ok {
			wrong = append(wrong, s.metric+" is not exported")
			continue
		}
		for _, m := range s.matchers {
			if labels[m.label] == nil {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", s.metric, m.label))
			} else if !m.selects(labels[m.label]) {
				wrong = append(wrong, fmt.Sprintf("%s has no %s that is %s", s.metric, m.label, m.value))
			}
		}
		if isHistogram := strings.HasSuffix(s.metric, "_bucket"); isHistogram && !slices.Contains(found.labels, "le") {
			wrong = append(wrong, s.metric+" is summed over its buckets")
		}
	}
	return wrong
}

// selects reports whether each of the values that the matcher names exists.
func (m matcher) selects(values []string) bool {
	if strings.Contains(m.value, "$") {
		return true
	}
	for one := range strings.SplitSeq(m.value, "|") {
		if !slices.Contains(values, one) {
			return false
		}
	}
	return true
}

type alertRules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr         string
			For                 *string
			Labels, Annotations map[string]string
		}
	}
}

// runbook is the page that has a section for each alert.
const runbook = "https://github.com/oncekey/oncekey/blob/main/docs/operations.md#"

var (
	inTemplate = regexp.MustCompile(`\$labels\.(\w+)`)
	severities = []string{"critical", "warning"}
)

// checkAlerts returns the mistakes in a file of alert rules.
func (e exported) checkAlerts(file []byte) (wrong []string) {
	var rules alertRules
	if err := yaml.UnmarshalWithOptions(file, &rules, yaml.Strict()); err != nil {
		return []string{err.Error()}
	}
	alerts := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			alerts++
			complain := func(format string, args ...any) {
				wrong = append(wrong, rule.Alert+": "+fmt.Sprintf(format, args...))
			}
			for _, one := range e.checkExpression(rule.Expr) {
				complain("%s", one)
			}
			if rule.For == nil {
				complain("it has no for")
			} else if _, err := time.ParseDuration(*rule.For); err != nil {
				complain("%v", err)
			}
			if !slices.Contains(severities, rule.Labels["severity"]) {
				complain("the severity is %q, want one of %q", rule.Labels["severity"], severities)
			}
			if want := runbook + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
				complain("the runbook_url is %q, want %s", rule.Annotations["runbook_url"], want)
			}
			for _, name := range []string{"summary", "description"} {
				if rule.Annotations[name] == "" {
					complain("it has no %s", name)
				}
				for _, label := range inTemplate.FindAllStringSubmatch(rule.Annotations[name], -1) {
					if !e.survives(rule.Expr, label[1]) {
						complain("the result has no label %s", label[1])
					}
				}
			}
		}
	}
	if alerts == 0 {
		wrong = append(wrong, "there are no alerts")
	}
	return wrong
}

// survives reports whether the result of an expression has a label: a label of its
// grouping, or any label if there is no grouping.
func (e exported) survives(text, label string) bool {
	found := parse(text)
	if len(found.labels) > 0 {
		return slices.Contains(found.labels, label)
	}
	return slices.ContainsFunc(found.selectors, func(s selector) bool { return e[s.metric][label] != nil }) ||
		slices.Contains(targetLabels, label)
}

type dashboard struct {
	Title       string
	Panels      []panel
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name, Type, Definition string
		}
	}
}

type panel struct {
	ID                 int
	Title, Description string
	Datasource         struct{ UID string }
	GridPos            struct{ X, Y, W, H int }
	FieldConfig        struct {
		Defaults struct{ NoValue string }
	}
	Targets []struct{ RefID, Expr, LegendFormat string }
}

var (
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
	labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
)

// checkDashboard returns the mistakes in a dashboard, including the metrics that no panel
// shows.
func (e exported) checkDashboard(file []byte) (wrong []string) {
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		return []string{err.Error()}
	}
	variables := []string{"__rate_interval", "__range"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Type != "query" {
			continue
		}
		query := append(labelValues.FindStringSubmatch(v.Definition), "", "", "")
		if e[query[1]][query[2]] == nil {
			wrong = append(wrong, fmt.Sprintf("$%s: %q has no values", v.Name, v.Definition))
		}
	}
	for _, mark := range d.Annotations.List {
		for _, one := range e.checkExpression(mark.Expr) {
			wrong = append(wrong, fmt.Sprintf("annotation %q: %s", mark.Name, one))
		}
	}
	shown := make(map[string]bool)
	ids := make(map[int]bool)
	for _, p := range d.Panels {
		for _, one := range e.checkPanel(p, variables, shown) {
			wrong = append(wrong, fmt.Sprintf("panel %q: %s", p.Title, one))
		}
		if ids[p.ID] {
			wrong = append(wrong, fmt.Sprintf("two panels have the id %d", p.ID))
		}
		ids[p.ID] = true
	}
	for _, family := range e.families() {
		if !shown[family] {
			wrong = append(wrong, "no panel shows "+family)
		}
	}
	return wrong
}

func (e exported) checkPanel(p panel, variables []string, shown map[string]bool) (wrong []string) {
	if p.Title == "" || p.Description == "" || p.GridPos.W <= 0 || p.GridPos.H <= 0 || p.GridPos.X+p.GridPos.W > 24 {
		wrong = append(wrong, "its title, its description or its place is missing")
	}
	if p.Datasource.UID != "${datasource}" {
		wrong = append(wrong, fmt.Sprintf("the data source is %q", p.Datasource.UID))
	}
	if len(p.Targets) == 0 {
		wrong = append(wrong, "the dashboard shows no metric")
	}
	for _, target := range p.Targets {
		wrong = append(wrong, e.checkExpression(target.Expr)...)
		found := parse(target.Expr)
		for _, s := range found.selectors {
			shown[familyOf(s.metric)] = true
		}
		for _, name := range found.variables {
			if !slices.Contains(variables, name) {
				wrong = append(wrong, fmt.Sprintf("the variable $%s is not declared", name))
			}
		}
		for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
			if !slices.Contains(found.labels, label[1]) {
				wrong = append(wrong, fmt.Sprintf("the legend's %s is not grouped by", label[1]))
			}
		}
	}
	return wrong
}

// emptyPanels returns the panels that have no data with these metrics, and that do not say
// 0 instead.
func (e exported) emptyPanels(file []byte) (empty []string, err error) {
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		return nil, err
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			if wrong := e.checkExpression(target.Expr); len(wrong) > 0 && p.FieldConfig.Defaults.NoValue != "0" {
				empty = append(empty, fmt.Sprintf("panel %q: no data, and noValue is %q, want 0: %s", p.Title, p.FieldConfig.Defaults.NoValue, wrong[0]))
			}
		}
	}
	return empty, nil
}
