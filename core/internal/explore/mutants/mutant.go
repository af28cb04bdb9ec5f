package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// mutant is one change of the engine that breaks a promise.
type mutant struct {
	name                 string
	breaks               string // a sentence
	function             string
	pattern, replacement string

	file    string // that is changed; "": the engine is unchanged
	changed []byte
}

// read parses a file: the sentence, the line "func: name", an empty line, the pattern,
// a line "====", and the replacement. It applies the mutant.
func read(path string, e *engine) (*mutant, error) {
	m := &mutant{name: strings.TrimSuffix(filepath.Base(path), ".mutant")}
	text, err := os.ReadFile(path)
	head, change, ok1 := strings.Cut(string(text), "\n\n")
	before, after, ok2 := strings.Cut(change, "\n====\n")
	var ok3 bool
	m.breaks, m.function, ok3 = strings.Cut(head, "\nfunc: ")
	m.pattern, m.replacement = before, strings.TrimSuffix(after, "\n")
	switch {
	case err != nil:
	case !ok1 || !ok2 || !ok3:
		err = errors.New("it has not the form of a mutant")
	default:
		err = e.apply(m)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", m.name, err)
	}
	return m, nil
}

// verdict is the result of trying a mutant.
type verdict struct {
	killed, survived bool
	rule, schedules  string
}

func failure(format string, arguments ...any) verdict {
	return verdict{rule: "**" + fmt.Sprintf(format, arguments...) + "**"}
}

// try builds the mutant, and runs it until a rule is broken.
func (m *mutant) try(ctx context.Context, work string, schedules int) verdict {
	binary := filepath.Join(work, "explore.test")
	if err := m.build(ctx, work, binary); err != nil {
		return failure("%v", err)
	}
	progress := filepath.Join(work, "progress")
	for _, test := range []string{"^TestExplore$", "^TestCases$"} {
		command := exec.CommandContext(ctx, binary, "-test.run", test, "-test.timeout", "1h")
		command.Env = append(os.Environ(), "ONCEKEY_FIRST="+progress, "ONCEKEY_SEED=", "ONCEKEY_SCHEDULES="+strconv.Itoa(schedules))
		output, err := command.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
		case errors.As(err, &exit):
			return seenBy(output, progress)
		default:
			return failure("%v", err)
		}
	}
	return verdict{survived: true, rule: fmt.Sprintf("**survives %d schedules**", schedules)}
}

var brokenCase = regexp.MustCompile(`(?s)--- FAIL: TestCases/(\S+).*?BROKEN (\S+):`)

var firstBroken = regexp.MustCompile(`first: (\d+) (.+)`)

// seenBy reads the output of the test.
func seenBy(output []byte, progress string) verdict {
	if found := firstBroken.FindSubmatch(output); found != nil {
		seed, _ := strconv.Atoi(string(found[1])) // the text is digits
		return verdict{killed: true, rule: string(found[2]), schedules: strconv.Itoa(seed + 1)}
	}
	if found := brokenCase.FindSubmatch(output); found != nil {
		return verdict{killed: true, rule: string(found[2]), schedules: "the plan " + strings.ReplaceAll(string(found[1]), "_", " ")}
	}
	begun, err := os.ReadFile(progress)
	line, _, _ := bytes.Cut(output[max(0, bytes.Index(output, []byte("panic: "))):], []byte("\n"))
	if err != nil || !bytes.HasPrefix(line, []byte("panic: ")) && !bytes.HasPrefix(line, []byte("fatal error: ")) {
		return failure("the test fails otherwise: %.200s", output)
	}
	how := "the process dies: " + strings.TrimPrefix(string(line), "panic: ")
	if bytes.Contains(line, []byte("does not come to an end")) {
		how = "stuck" // the test runs forever, or waits for a lock
	}
	return verdict{killed: true, rule: how, schedules: string(begun)}
}

// build makes the test of package explore with the mutant in place.
func (m *mutant) build(ctx context.Context, work, binary string) error {
	arguments := []string{"test", "-c", "-o", binary}
	if m.file != "" {
		changed, list := filepath.Join(work, "changed.go"), filepath.Join(work, "overlay.json")
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{m.file: changed}})
		if err := errors.Join(err, os.WriteFile(changed, m.changed, 0o600), os.WriteFile(list, overlay, 0o600)); err != nil {
			return err
		}
		arguments = append(arguments, "-overlay", list)
	}
	output, err := exec.CommandContext(ctx, "go", append(arguments, "./core/internal/explore")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the mutant does not build: %s", bytes.ReplaceAll(bytes.TrimSpace(output), []byte("\n"), []byte(" ")))
	}
	return nil
}
