package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncekey/oncekey/internal/testkit"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.ReadFile(name)
	testkit.Must(t, err)
	return file
}

// Dashboard and alerts use only names that the program exports.
func TestDashboardAndAlertsNameWhatIsExported(t *testing.T) {
	t.Parallel()
	all := everythingHappens(t)
	for _, one := range all.checkDashboard(readFile(t, "dashboard.json")) {
		t.Error("dashboard.json:", one)
	}
	for _, one := range all.checkAlerts(readFile(t, "alerts.yaml")) {
		t.Error("alerts.yaml:", one)
	}
}

// On a healthy service the panels about faults say 0.
func TestPanelsOfAHealthyServiceSayZero(t *testing.T) {
	t.Parallel()
	file := readFile(t, "dashboard.json")
	all := healthy(t)
	empty, err := all.emptyPanels(file)
	testkit.Must(t, err)
	for _, one := range empty {
		t.Error(one)
	}
	silent := bytes.ReplaceAll(file, []byte(`"noValue": "0"`), []byte(`"noValue": ""`))
	if empty, _ := all.emptyPanels(silent); len(empty) < 5 {
		t.Errorf("without noValue the panels without data are %q, want at least five", empty)
	}
}

// A scrape has neither the labels of the scope nor an unknown service.
func TestScrapeIsLean(t *testing.T) {
	t.Parallel()
	all := healthy(t)
	for name, labels := range all {
		for label := range labels {
			if strings.HasPrefix(label, "otel_scope") {
				t.Errorf("%s has the label %s", name, label)
			}
		}
	}
	if info := all["target_info"]; !slices.Equal(info["service_name"], []string{"payments"}) || !slices.Equal(info["service_version"], []string{version}) {
		t.Errorf("target_info has %v, want the service payments, version %s", info, version)
	}
}

// The check above finds mistakes.
func TestMistakesInTheFilesAreFound(t *testing.T) {
	t.Parallel()
	all := everythingHappens(t)
	for _, row := range []struct{ file, old, mistaken, complaint string }{
		{"alerts.yaml", "idempotency_conflicts_total", "idempotency_conflict_total", "idempotency_conflict_total is not exported"},
		{"alerts.yaml", "error_type=", "error=", "has no label error"},
		{"alerts.yaml", "by (job, error_type)", "by (job, error)", "has the label error"},
		{"alerts.yaml", `"response_lost"`, `"answers_lost"`, "has no idempotency_result that is answers_lost"},
		{"alerts.yaml", "        for: 10m\n", "", "it has no for"},
		{"alerts.yaml", "for: 10m", "for: soon", "invalid duration"},
		{"alerts.yaml", "severity: warning", "severity: bad", "the severity is"},
		{"alerts.yaml", "          summary:", "          summery:", "it has no summary"},
		{"alerts.yaml", "#idempotencyleaselost", "#lost", "the runbook_url is"},
		{"alerts.yaml", "$labels.instance", "$labels.host", "no label host"},
		{"alerts.yaml", "annotations:", "annotation:", "annotation"},
		{"alerts.yaml", "- alert:", "- record:", "record"},
		{"dashboard.json", "idempotency_settlement_pending{", "idempotency_settlements_total{", "no panel shows idempotency_settlement_pending"},
		{"dashboard.json", "target_info", "target_information", "target_information is not exported"},
		{"dashboard.json", "by (le", "by (idempotency_result", "summed over its buckets"},
		{"dashboard.json", "label_values(idempotency_requests_total, http_route)", "label_values(idempotency_requests_total, route)", "has no values"},
		{"dashboard.json", "$route", "$path", "$path is not declared"},
		{"dashboard.json", "{{http_route}}", "{{http_target}}", "http_target is not grouped by"},
	} {
		file := string(readFile(t, row.file))
		if !strings.Contains(file, row.old) {
			t.Errorf("%s has no %s", row.file, row.old)
		}
		mistaken := []byte(strings.ReplaceAll(file, row.old, row.mistaken))
		wrong := all.checkAlerts(mistaken)
		if row.file == "dashboard.json" {
			wrong = all.checkDashboard(mistaken)
		}
		if complaints := strings.Join(wrong, "\n"); !strings.Contains(complaints, row.complaint) {
			t.Errorf("%s with %s: the complaints are %q, want %q", row.file, row.mistaken, complaints, row.complaint)
		}
	}
}

// Prometheus finds the program and its rules.
func TestPrometheusScrapesTheProgram(t *testing.T) {
	t.Parallel()
	var config struct {
		Global        map[string]string
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string `yaml:"job_name"`
			StaticConfigs []struct {
				Targets []string
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	testkit.Must(t, yaml.UnmarshalWithOptions(readFile(t, "prometheus.yaml"), &config, yaml.Strict()))
	testkit.EqualSlices(t, config.RuleFiles, []string{"alerts.yaml"}, "the rules")
	var targets []string
	for _, scraped := range config.ScrapeConfigs {
		for _, static := range scraped.StaticConfigs {
			targets = append(targets, static.Targets...)
		}
	}
	testkit.EqualSlices(t, targets, []string{defaultAddr}, "the targets")
}

// Each alert has a section in the runbook.
func TestAlertsHaveTheirRunbook(t *testing.T) {
	t.Parallel()
	page := string(readFile(t, "../../docs/operations.md"))
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(readFile(t, "alerts.yaml")), -1) {
		if !regexp.MustCompile(`(?m)^#+ ` + alert[1] + `$`).MatchString(page) {
			t.Errorf("docs/operations.md has no section %s", alert[1])
		}
	}
}
