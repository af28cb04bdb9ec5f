package testkit

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

// Examined returns the finding of each check, and expects the checks in this order.
func Examined(t testing.TB, findings []storage.Finding, checks []string) map[string]storage.Finding {
	t.Helper()
	byCheck := map[string]storage.Finding{}
	var order []string
	for _, f := range findings {
		byCheck[f.Check] = f
		order = append(order, f.Check)
		if f.Seen == "" || (f.Advice == "") != (f.Grade == storage.Good) {
			t.Errorf("the finding %+v says too little, or too much", f)
		}
	}
	if !slices.Equal(order, checks) {
		t.Errorf("the checks are %q, want %q", order, checks)
	}
	return byCheck
}

// WantFinding expects a grade, and texts of the finding.
func WantFinding(t testing.TB, findings map[string]storage.Finding, check string, grade storage.Grade, texts ...string) {
	t.Helper()
	f := findings[check]
	if check == "round trip" && grade == storage.Good && f.Grade != storage.Skipped {
		grade = f.Grade // a busy machine is slow
	}
	for _, text := range texts {
		if f.Grade != grade || !strings.Contains(f.Seen+" "+f.Advice, text) {
			t.Errorf("the finding is %+v, want %q to be %s, with %q", f, check, grade, text)
		}
	}
}
