package serverproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
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
