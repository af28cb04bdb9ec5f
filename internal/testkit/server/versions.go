package serverproc

import (
	"fmt"
	"strings"
	"testing"
)

// Versions compares the error of a check of a program's version with a part of its text, or with <nil>, for each banner.
func Versions(t testing.TB, check func(banner string) error, wants map[string]string) {
	t.Helper()
	for banner, want := range wants {
		if got := fmt.Sprint(check(banner)); !strings.Contains(got, want) {
			t.Errorf("%q gives %s, want %q", banner, got, want)
		}
	}
}
