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
	found, err := parse(text)
	if err != nil {
		return []string{err.Error()}
	}
	if len(found.selectors) == 0 {
		wrong = append(wrong, "the expression names no metric")
	}
	for _, s := range found.selectors {
		labels, ok := e[s.metric]
		if !ok {
			wrong = append(wrong, s.metric+" is not exported")
			continue
		}
		for _, name := range found.labels {
			if labels[name] == nil && !slices.Contains(targetLabels, name) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", s.metric, name))
			}
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
	found, _ := parse(text)
	if len(found.labels) > 0 {
		return slices.Contains(found.labels, label)
	}
	return slices.ContainsFunc(found.selectors, func(s selector) bool { return e[s.metric][label] != nil }) ||
		slices.Contains(targetLabels, label)
}

type dashboard struct {
	Title      string
	Panels     []panel
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
	Targets            []struct{ RefID, Expr, LegendFormat string }
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
		found, _ := parse(target.Expr)
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
