package testkit

import (
	"fmt"
	"slices"
	"testing"
)

// Equal expects a value, which a format and its arguments describe.
func Equal[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", fmt.Sprintf(what, args...), shown(got), shown(want))
	}
}

// EqualSlices is Equal for the elements of slices.
func EqualSlices[T comparable](t testing.TB, got, want []T, what string, args ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %s, want %s", fmt.Sprintf(what, args...), shown(got), shown(want))
	}
}

// shown quotes strings, so that white space and an empty one can be seen.
func shown(value any) string {
	switch value.(type) {
	case string, []string:
		return fmt.Sprintf("%q", value)
	}
	return fmt.Sprintf("%+v", value)
}
