package serverproc

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
)

func TestProgramOwnsItsServers(t *testing.T) {
	t.Parallel()
	var owner Program
	var log []string
	if err := owner.Try(func() {
		owner.Cleanup(func() { log = append(log, "first") })
		owner.Cleanup(func() { log = append(log, "second") })
	}); err != nil {
		t.Errorf("a server that has started is the error %v", err)
	}
	owner.End()
	testkit.EqualSlices(t, log, []string{"second", "first"}, "the clean-ups")
}

func TestProgramGetsErrorsOfServers(t *testing.T) {
	t.Parallel()
	var owner Program
	if err := owner.Try(func() { missing(&owner, false, "install it") }); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "install it") {
		t.Errorf("a server that is not installed is the error %v", err)
	}
	err := owner.Try(func() {
		StartOnFreePort(&owner, func(int) error { return errNoSuchLine }, func() bool { return false })
	})
	if err == nil || errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), errNoSuchLine.Error()) {
		t.Errorf("a server that does not start is the error %v", err)
	}
	defer func() {
		testkit.Equal(t, recover(), "a bug", "a panic of the program is lost")
	}()
	_ = owner.Try(func() { panic("a bug") })
}
