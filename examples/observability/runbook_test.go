package main

import (
	"regexp"
	"testing"
)

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
