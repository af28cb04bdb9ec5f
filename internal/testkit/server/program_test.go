package serverproc

import (
	"errors"
	"slices"
	"strings"
	"testing"
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
	if want := []string{"second", "first"}; !slices.Equal(log, want) {
		t.Errorf("the clean-ups are %q, want %q", log, want)
	}
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
		if recover() != "a bug" {
			t.Error("a panic of the program is lost")
		}
	}()
	_ = owner.Try(func() { panic("a bug") })
}
