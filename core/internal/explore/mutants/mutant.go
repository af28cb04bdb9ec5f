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
	breaks   string // a sentence
	file     string
	old, new string
}

// read parses a file: the sentence, the line "file: name", and the two texts after
// the lines "<<<<" and "====", up to the line ">>>>".
func read(path string) (mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, err
	}
	head, rest, ok1 := strings.Cut(string(text), "\n<<<<\n")
	before, rest, ok2 := strings.Cut(rest, "\n====\n")
	after, _, ok3 := strings.Cut("\n"+rest, "\n>>>>\n")
	breaks, file, ok4 := strings.Cut(head, "\nfile: ")
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return mutant{}, fmt.Errorf("%s is not written as a mutant is", path)
	}
	return mutant{strings.TrimSpace(breaks), strings.TrimSpace(file), before, strings.TrimPrefix(after, "\n")}, nil
}

// verdict is the result of trying a mutant.
type verdict struct {
	killed, unbuilt bool
	rule, schedules string
}

func failure(format string, arguments ...any) verdict {
	return verdict{rule: "**" + fmt.Sprintf(format, arguments...) + "**"}
}

// try builds the mutant, and runs it until a rule is broken.
func (m *mutant) try(ctx context.Context, work string, schedules int, check bool) verdict {
	binary := filepath.Join(work, "explore.test")
	if err := m.build(ctx, work, binary); err != nil {
		v := failure("%v", err)
		v.unbuilt = true
		return v
	}
	if check {
		return verdict{killed: true, rule: "builds"}
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
	return failure("survives %d schedules", schedules)
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
	source, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return fmt.Errorf("the old text is %d times in %s", n, m.file)
	}
	changed := filepath.Join(work, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return err
	}
	list := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", list, "-o", binary, "./core/internal/explore").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the mutant does not build: %s", bytes.ReplaceAll(bytes.TrimSpace(output), []byte("\n"), []byte(" ")))
	}
	return nil
}
