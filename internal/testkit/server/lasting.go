package serverproc

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// Lasting acts as a test that lasts as long as the process, for a server that several tests share. While the server starts,
// it fails the test that needs the server. That test has ended when a later message arrives.
type Lasting struct {
	testing.TB
	mutex   sync.Mutex
	cleanUp []func()
}

// Helper implements testing.TB.
func (l *Lasting) Helper() {}

// Failed implements testing.TB.
func (l *Lasting) Failed() bool { return false }

// Logf implements testing.TB.
func (l *Lasting) Logf(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
}

// Errorf implements testing.TB.
func (l *Lasting) Errorf(format string, arguments ...any) { l.Logf(format, arguments...) }

// Cleanup implements testing.TB.
func (l *Lasting) Cleanup(f func()) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.cleanUp = append(l.cleanUp, f)
}

// End runs the clean-ups, the newest first.
func (l *Lasting) End() {
	for _, f := range slices.Backward(l.cleanUp) {
		f()
	}
}
