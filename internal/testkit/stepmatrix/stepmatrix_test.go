package stepmatrix_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/internal/testkit/stepmatrix"
)

// A handler of four steps ends at every point, in every way, on every router.
func TestStepMatrix(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { stepmatrix.Run(t, memstore.New(), 3*time.Second) })
}
