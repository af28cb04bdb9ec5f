package serverproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestProgramDoesNotSurviveKilledTestBinary(t *testing.T) {
	t.Parallel()
	parent := Start(t, "orphaning", program(t, "orphaning"))
	started := parent.AwaitLine(regexp.MustCompile(`^started (\d+)$`))

	parent.Kill() // the server is in a process group of its own and survives this signal

	observer := Start(t, "observer", program(t, "server"))
	err := observer.Await(func(context.Context) error { return expectGone(started[1]) })
	if err != nil {
		t.Error(err)
	}
}

// The time of the program counts, and that of its children while they run and after they have ended.
func TestProcessorTime(t *testing.T) {
	t.Parallel()
	worker := Start(t, "worker", program(t, "worker"))
	worker.AwaitLine(regexp.MustCompile(`^done$`))
	const coarse = 20 * time.Millisecond // ended processes count in such steps
	if used := worker.ProcessorTime(); used < 3*workTime-coarse {
		t.Errorf("three processes that have used %v each have used %v", workTime, used)
	}
}

// expectGone returns nil if there is no such process, or only its zombie.
func expectGone(pid string) error {
	status, err := os.ReadFile("/proc/" + pid + "/stat")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, state, _ := strings.Cut(string(status), ") ")
	if strings.HasPrefix(state, "Z") {
		return nil
	}
	return fmt.Errorf("process %s is in state %.1s", pid, state)
}
