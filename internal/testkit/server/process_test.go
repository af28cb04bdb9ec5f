package serverproc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

var listening = regexp.MustCompile(`listening on`)

func TestStopLetsEvenAPausedProgramEndInOrder(t *testing.T) {
	t.Parallel()
	process := Start(t, "server", program(t, "server"))
	process.AwaitLine(listening)
	process.Pause()
	process.Stop()
	if err := process.Wait(); err != nil {
		t.Errorf("the program ended with %v, want status 0", err)
	}
	if output := process.Output(); !slices.Contains(output, "goodbye") {
		t.Errorf("its output is %q, want its last words too", output)
	}
}

func TestKillReachesPausedProgram(t *testing.T) {
	t.Parallel()
	process := Start(t, "server", program(t, "server"))
	process.AwaitLine(listening)
	process.Pause()
	process.Kill()
	var exit *exec.ExitError
	if err := process.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Errorf("the program ended with %v, want a signal", err)
	}
}

func TestEverythingIsHarmlessOnProgramThatHasEnded(t *testing.T) {
	t.Parallel()
	process := Start(t, "crasher", program(t, "crasher"))
	var exit *exec.ExitError
	if err := process.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Fatalf("the program ended with %v, want status 3", err)
	}
	process.Pause()
	process.Resume()
	process.Stop()
	process.Kill()
	process.Stop()
}

func TestAwaitGivesUpWhenTheProgramHasEnded(t *testing.T) {
	t.Parallel()
	process := Start(t, "crasher", program(t, "crasher"))
	notYet := errors.New("not yet")
	err := process.Await(func(context.Context) error { return notYet })
	if !errors.Is(err, notYet) {
		t.Fatalf("the error is %v, want the probe's own", err)
	}
	for _, part := range []string{"crasher", "exit status 3", "no disk left"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want the text %q in it", err, part)
		}
	}
}

func TestAwaitLineSeesLastWords(t *testing.T) {
	t.Parallel()
	process := Start(t, "crasher", program(t, "crasher"))
	if err := process.Wait(); err == nil {
		t.Fatal("the program ended with status 0, want 3")
	}
	process.AwaitLine(regexp.MustCompile(`^no disk left$`))
}

func TestMissingLineFailsTheTest(t *testing.T) {
	t.Parallel()
	process := Start(t, "crasher", program(t, "crasher"))
	verdict := judge(t, func(tb testing.TB) {
		process.t = tb
		defer func() { process.t = t }()
		process.AwaitLine(listening)
	})
	if verdict.verdict != "failed" || !strings.Contains(verdict.message, "listening on") {
		t.Errorf("the test %s: %q, want a failure that names the line", verdict.verdict, verdict.message)
	}
}

func TestProgramThatCannotStartFailsTheTest(t *testing.T) {
	t.Parallel()
	verdict := judge(t, func(tb testing.TB) {
		Start(tb, "nothing", exec.CommandContext(t.Context(), t.TempDir()+"/nothing"))
	})
	if verdict.verdict != "failed" || !strings.Contains(verdict.message, "start nothing") {
		t.Errorf("the test %s: %q, want a failure that names the program", verdict.verdict, verdict.message)
	}
}

func TestMissingServerSkipsUnlessServersAreRequired(t *testing.T) {
	t.Parallel()
	for required, want := range map[bool]string{false: "skipped", true: "failed"} {
		verdict := judge(t, func(tb testing.TB) { missing(tb, required, "install it") })
		if verdict.verdict != want || verdict.message != "install it" {
			t.Errorf("required %t: the test %s: %q, want %s", required, verdict.verdict, verdict.message, want)
		}
	}
}

func TestOutputJoinsChunksIntoLines(t *testing.T) {
	t.Parallel()
	var collected output
	for _, chunk := range []string{"one\ntw", "o\r\n", "\nthr", "ee"} {
		fmt.Fprint(&collected, chunk)
	}
	testkit.EqualSlices(t, collected.snapshot(), []string{"one", "two", "", "three"}, "lines")
}

func TestOutputForgetsTheOldestLines(t *testing.T) {
	t.Parallel()
	var collected output
	for number := range 3 * maximumLines {
		fmt.Fprintln(&collected, number)
	}
	lines := collected.snapshot()
	if last := strconv.Itoa(3*maximumLines - 1); lines[len(lines)-1] != last || len(lines) > maximumLines {
		t.Errorf("%d lines are kept up to %s, want at most %d up to %s", len(lines), lines[len(lines)-1], maximumLines, last)
	}
}
