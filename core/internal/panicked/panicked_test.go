package panicked_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/internal/panicked"
)

func TestPanicsAreErrors(t *testing.T) {
	t.Parallel()
	err := panicked.Call("hook", func() error { panic("secret") })
	if err == nil || !strings.Contains(err.Error(), "the hook panicked at ") || !strings.Contains(err.Error(), "panicked_test.go:") ||
		!strings.HasSuffix(err.Error(), "a value of type string") {
		t.Errorf("the error is %v, want the place and the type", err)
	}
	if err := panicked.Call("hook", func() error { return []error{}[len(t.Name())] }); err == nil ||
		!strings.Contains(err.Error(), "index out of range") {
		t.Errorf("the error is %v, want the text of the runtime's error", err)
	}
	own := errors.New("its own")
	if err := panicked.Call("hook", func() error { return own }); !errors.Is(err, own) {
		t.Errorf("the error is %v, want the call's own", err)
	}
}
