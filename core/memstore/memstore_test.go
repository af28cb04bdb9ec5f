package memstore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return memstore.New() },
		Wrap: synctest.Test,
	})
}

func TestLimiterConformance(t *testing.T) {
	t.Parallel()
	storetest.RunLimiter(t, storetest.Config{New: func(testing.TB) storage.Store { return memstore.New() }, Wrap: synctest.Test})
}

func TestConformanceInRealTime(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{
		New:  func(testing.TB) storage.Store { return memstore.New() },
		Unit: 300 * time.Millisecond,
	})
}
