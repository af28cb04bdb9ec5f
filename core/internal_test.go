package core

import (
	"testing"
	"unsafe"
)

// The state of a run is the largest allocation of a first-time request. Above this size,
// the runtime takes 256 bytes more for it.
func TestExecutionFits(t *testing.T) {
	t.Parallel()
	const class, header = 1792, 8
	if size := unsafe.Sizeof(execution{}); size > class-header {
		t.Errorf("an execution has %d bytes, want at most %d", size, class-header)
	}
}
