package panicked_test

import (
	"context"
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

func TestWithin(t *testing.T) {
	t.Parallel()
	if n, err := panicked.Within(t.Context(), "hook", func() (int, error) { return 1, nil }); n != 1 || err != nil {
		t.Errorf("the call returned %d and %v, want its result", n, err)
	}
	if _, err := panicked.Within(t.Context(), "hook", func() (int, error) { panic("secret") }); err == nil ||
		!strings.Contains(err.Error(), "the hook panicked at ") {
		t.Errorf("the error is %v, want the panic", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	n, err := panicked.Within(ctx, "hook", func() (int, error) {
		cancel()
		<-release
		return 1, nil
	})
	if n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("the call returned %d and %v, want the end of its context", n, err)
	}
}
