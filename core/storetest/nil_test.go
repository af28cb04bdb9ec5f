package storetest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/oncekey/oncekey/core/storage"
)

func TestNilIsNamed(t *testing.T) {
	t.Parallel()
	nilStore := func(testing.TB) storage.Store { return nil }
	for want, run := range map[string]func(testing.TB){
		"New is nil":               func(t testing.TB) { needNew(t, false) },
		"New returned a nil store": func(t testing.TB) { allCases()[0].run(t, Config{New: nilStore}.open) },
	} {
		test := &quoted{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(test)
		}()
		<-done
		if !strings.Contains(test.said, want) {
			t.Errorf("said %q, want %q", test.said, want)
		}
	}
}

// quoted is a test that keeps the text of its failure.
type quoted struct {
	testing.TB
	said string
}

func (q *quoted) Fatal(args ...any) {
	q.said = fmt.Sprint(args...)
	runtime.Goexit()
}

func (q *quoted) Failed() bool { return q.said != "" }
