// Package model checks the lease protocol alone: lease.pml is its model, and Spin searches all of its states.
package model

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// model is part of the program: go test keeps a result while its program is the same, but not if it reads a file that is newer,
// as all files of a new clone are. For the same reason the program has no part of the library.
//
//go:embed lease.pml
var model []byte

// timeout bounds one search. The longest takes seconds on a free processor, and minutes on a busy one.
const timeout = 20 * time.Minute

// The properties, each by a unique part of its assertion. README.md states the properties.
const (
	oneResponse     = "final==0"
	oneResponseEver = "shown==0"
	alone           = "left>0"
	oneEffect       = "takenOver"
	fenced          = "effectsOf"
	staleIsHarmless = "==latest"
	laterRunKnows   = "careless"
	staysReleased   = "released["
	neverAgain      = "reconciled"
)

// search is one search of the model.
type search struct {
	name   string
	flags  string // the model's switches
	breaks string // the violated property, or empty
}

// The protocol holds, and so do its stricter variants (cases 5, 6, 11, 36, 37, 41).
var sound = []search{
	{"late calls", "PODS=2 LATE=2", ""},
	{"longer lease", "PODS=2 LATE=1 TTL=2", ""},
	{"three requests", "PODS=3 LATE=0 TRIES=1", ""},
	{"refuse", "PODS=2 LATE=1 REFUSE STRICT_RESPONSES", ""},
	{"confirm always", "PODS=2 LATE=1 CONFIRM_ALWAYS STRICT_RESPONSES FROZEN_BEFORE_WRITE", ""},
	{"tombstone", "PODS=2 LATE=1 TOMBSTONE STRICT_RELEASE", ""},
	{"reconciler", "PODS=3 RECONCILERS=1 LATE=0 TRIES=1", ""},
	{"reconciler and late calls", "PODS=2 RECONCILERS=1 LATE=2", ""},
	{"reconciler and refuse", "PODS=3 RECONCILERS=1 LATE=0 TRIES=1 REFUSE", ""},
	{"two reconcilers", "PODS=3 RECONCILERS=2 LATE=1 TRIES=1", ""},
}

// The limits of the protocol's promise. README.md describes each.
var limits = []search{
	{"shown and never stored", "PODS=2 LATE=0 STRICT_RESPONSES", oneResponseEver},
	{"frozen before the write", "PODS=2 LATE=0 FROZEN_BEFORE_WRITE", oneResponse},
	{"late renewal after the release", "PODS=2 LATE=1 STRICT_RELEASE", staysReleased},
}

// Each mutant breaks one rule, and one property notices.
var mutants = []search{
	{"", "PODS=2 LATE=0 SHOW_UNCONFIRMED", oneResponse},
	{"", "PODS=2 LATE=0 REPLAY_UNCONFIRMED", oneResponse},
	{"", "PODS=2 LATE=0 COMPLETE_OVER_OTHER", oneResponse},
	{"", "PODS=2 LATE=0 RENEW_UNBOUNDED", alone},
	{"", "PODS=2 LATE=0 CLOCK_STOPS", alone},
	{"", "PODS=2 LATE=0 LEASE_FROM_REPLY", alone},
	{"", "PODS=2 LATE=0 TAKEOVER_EARLY", alone},
	{"", "PODS=2 LATE=0 RELEASE_IGNORES_TOKEN", alone},
	{"", "PODS=2 LATE=0 ATTEMPT_NOT_RAISED", fenced},
	{"", "PODS=3 LATE=0 TRIES=1 RELEASE_IGNORES_ATTEMPT", fenced},
	{"", "PODS=3 LATE=0 TRIES=1 RELEASE_FORGETS_ATTEMPT", fenced},
	{"", "PODS=2 LATE=0 COMPLETE_IGNORES_TOKEN", staleIsHarmless},
	{"", "PODS=2 LATE=0 EXTEND_IGNORES_TOKEN", staleIsHarmless},
	{"", "PODS=2 LATE=1 COMPLETE_IGNORES_ATTEMPT", staleIsHarmless},
	{"", "PODS=2 LATE=1 EXTEND_IGNORES_ATTEMPT", staleIsHarmless},
	{"", "PODS=2 LATE=0 RELEASE_AFTER_EFFECT", oneEffect},
	{"", "PODS=2 LATE=0 TOOKOVER_FORGOTTEN", laterRunKnows},
	{"", "PODS=2 LATE=0 RENEW_AFTER_SETTLE", staysReleased},
	{"", "PODS=2 LATE=0 EXTEND_WHILE_RELEASING", staysReleased},
	{"", "PODS=2 LATE=0 REFUSE RECONCILERS=1 TAKEOVER_EARLY", alone},
	{"", "PODS=3 LATE=0 TRIES=1 RECONCILERS=1 RECONCILER_RELEASES", laterRunKnows},
	{"", "PODS=3 LATE=0 TRIES=1 RECONCILERS=1 SETTLED_RUNS_AGAIN", neverAgain},
}

func TestProtocol(t *testing.T) { t.Parallel(); checkAll(t, sound) }
func TestLimits(t *testing.T)   { t.Parallel(); checkAll(t, limits) }
func TestMutants(t *testing.T)  { t.Parallel(); checkAll(t, mutants) }

func checkAll(t *testing.T, searches []search) {
	t.Helper()
	needPrograms(t)
	for _, s := range searches {
		name := s.name
		if name == "" {
			name = s.flags[strings.LastIndexByte(s.flags, ' ')+1:]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

// needPrograms skips the test on a machine without Spin.
func needPrograms(t *testing.T) {
	t.Helper()
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			serverproc.Missing(t, "the model of the lease needs "+program+": install the package "+program)
		}
	}
}

func (s *search) check(t *testing.T) {
	t.Helper()
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, "lease.pml"), model, 0o600); err != nil {
		t.Fatal(err)
	}
	generate := []string{"-a"}
	for flag := range strings.FieldsSeq(s.flags) {
		generate = append(generate, "-D"+flag)
	}
	run(t, directory, "spin", append(generate, "lease.pml")...)
	optimize, table := "-O1", "-w24" // the table of states has 2^24 places
	if s.breaks != "" {
		optimize, table = "-O0", "-w20" // a search that ends early costs less than the compiler, and than a large table
	}
	run(t, directory, "gcc", optimize, "-w", "-DSAFETY", "-DVECTORSZ=512", "-o", "pan", "pan.c")
	found := run(t, directory, "./pan", table, "-m200000")
	first, _, violated := strings.Cut(found, "(at depth")
	switch {
	case strings.Contains(found, "max search depth too small") || !strings.Contains(found, "State-vector"):
		t.Errorf("%s: the search was cut off:\n%s", s.flags, found)
	case s.breaks == "" && violated, s.breaks == "" && !strings.Contains(found, "errors: 0"):
		t.Errorf("%s: a property is violated:\n%s\nREADME.md says how to read the trail.", s.flags, found)
	case s.breaks != "" && !strings.Contains(first, s.breaks):
		t.Errorf("%s: want a violation of the assertion with %q:\n%s", s.flags, s.breaks, found)
	}
}

// run returns a program's whole output.
func run(t *testing.T, directory, program string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = directory
	printed, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, printed)
	}
	return string(printed)
}
