package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/examples/bench/internal/load"
	"github.com/oncekey/oncekey/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKeys(t *testing.T) {
	t.Parallel()
	var key [load.KeySize]byte
	putKey(1234, key[:])
	testkit.Equal(t, string(key[:]), "00000000-0000-4000-00000000000001234", "the key of 1234")
	if keys := newKeys(2); keys[0] == keys[1] {
		t.Errorf("two keys are the same: %v", keys)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	if len(payload) != size || len(response) != size || !json.Valid(payload) || !json.Valid(response) {
		t.Errorf("the payload has %d and the response %d bytes", len(payload), len(response))
	}
}

// The shortest complete run: servers, arms, the file.
func TestRun(t *testing.T) { //nolint:paralleltest // a comparison has the process to itself
	file := filepath.Join(t.TempDir(), "result.md")
	testkit.Must(t, os.WriteFile(file, []byte("before\n"+keptLine+"\nby hand\n"), 0o600))
	arguments := []string{"-rounds", "1", "-slice", "1ms", "-parts", "guarded,inprocess,openloop,sql", "-o", file}
	testkit.Must(t, run(t.Context(), arguments))
	written, err := os.ReadFile(file)
	testkit.Must(t, err)
	result := string(written)
	for _, want := range []string{
		"# Benchmarks\n", "`go -C examples/bench run . -parts=guarded,inprocess,openloop,sql -rounds=1 -slice=1ms`",
		"## What a guard costs", "| memory, 1 at once, first |", "## A guard on each store", "Only a part of the benchmarks was run",
		"## In process, in memory", "| fiber v3: replay |", "| net/http, outer headers: first |", "Open loop, oncekey: replay", "## SQL databases", "database/sql, SQLite, 16 at once", "## Targets",
		"| Redis, 16 connections, first : tutorial | >= 0.84 | not measured |", "\n\n" + keptLine + "\nby hand\n",
	} {
		if !strings.Contains(result, want) {
			t.Errorf("the result has no %q", want)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ((?:A guard|in process|open loop|database/sql).*) \| not measured \|`).FindAllString(result, -1) {
		name := regexp.MustCompile(`Redis|PostgreSQL|MySQL|MariaDB|$`).FindString(row)
		if name == "" || !strings.Contains(result, "| "+name+" | "+missing+" |") {
			t.Errorf("all arms ran, and a target did not find its own: %s", row)
		}
	}
	if strings.Contains(result, file) {
		t.Error("the result contains the name of its own file")
	}
}

// Only arms that match run, with the first of their table.
func TestRunOfSomeArms(t *testing.T) { //nolint:paralleltest // a comparison has the process to itself
	file := filepath.Join(t.TempDir(), "result.md")
	arguments := []string{"-rounds", "1", "-slice", "1ms", "-parts", "inprocess,openloop", "-arms", "^tutorial: (replay|first)$", "-o", file}
	testkit.Must(t, run(t.Context(), arguments))
	written, err := os.ReadFile(file)
	testkit.Must(t, err)
	rows := regexp.MustCompile(`(?m)^\| (\S+: [a-z]+) \|`).FindAllStringSubmatch(string(written), -1)
	if len(rows) != 3 || rows[0][1] != bareArm || rows[1][1] != "tutorial: first" || rows[2][1] != "tutorial: replay" {
		t.Errorf("the arms are %q, want the first one and the two that match", rows)
	}
	if strings.Contains(string(written), "Open loop") {
		t.Errorf("a table has no arm: %.300s", written)
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{"-parts", "nonsense"}, {"-arms", "("}, {"-rounds", "0"}, {"-slice", "0"}, {"-nonsense"}} {
		if err := run(t.Context(), arguments); err == nil {
			t.Errorf("%v is accepted", arguments)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, []string{"-parts", "inprocess"}); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt the program returns %v", err)
	}
}
