package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncekey/oncekey/internal/testkit"
	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// promtool runs Prometheus' own checker. Without it the test is skipped, or fails if the
// check must run every test.
func promtool(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		serverproc.Missing(t, "no promtool found: install prometheus (Debian: apt-get install prometheus)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	return string(said), err
}

// The alerts fire when they should, and only then. alerts.test.yaml has the cases.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"test", "rules", "alerts.test.yaml"}, {"check", "config", "prometheus.yaml"}} {
		if output, err := promtool(t, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
}

// Each expression of the dashboard is valid, and one with an unknown function is not.
func TestPanelsHaveValidExpressions(t *testing.T) {
	t.Parallel()
	var d dashboard
	testkit.Must(t, json.Unmarshal(readFile(t, "dashboard.json"), &d))
	rules := "groups: [{name: dashboard, rules: ["
	for _, mark := range d.Annotations.List {
		rules += fmt.Sprintf("{record: name, expr: %q},\n", mark.Expr)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			rules += fmt.Sprintf("{record: name, expr: %q},\n", target.Expr)
		}
	}
	rules = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h").Replace(rules) + "]}]"
	for text, valid := range map[string]bool{rules: true, strings.Replace(rules, "rate(", "rates(", 1): false} {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		if output, err := promtool(t, "check", "rules", "--lint=none", file); (err == nil) != valid {
			t.Errorf("valid: %t, and promtool says: %v\n%s", valid, err, output)
		}
	}
}

// Each alert has a case in which it fires.
func TestEveryAlertHasACase(t *testing.T) {
	t.Parallel()
	var cases struct {
		Tests []struct {
			Promql []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	testkit.Must(t, yaml.Unmarshal(readFile(t, "alerts.test.yaml"), &cases))
	var fired strings.Builder
	for _, one := range cases.Tests {
		for _, query := range one.Promql {
			for _, sample := range query.Samples {
				fired.WriteString(sample.Labels)
			}
		}
	}
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(readFile(t, "alerts.yaml")), -1) {
		if !strings.Contains(fired.String(), `"`+alert[1]+`"`) {
			t.Errorf("%s fires in no case of alerts.test.yaml", alert[1])
		}
	}
}
