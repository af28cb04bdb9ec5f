package tieredstore_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// Case 47: a hot tier that refuses connections costs little time, and the log names
// the cause.
func TestHotTierThatRefusesConnections(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // a port that no other test's server takes
	defer rdb.Close()
	var log bytes.Buffer
	store := tieredstore.New(redisstore.New(rdb), memstore.New(),
		tieredstore.Logger(slog.New(slog.NewTextHandler(&log, nil))), tieredstore.HotTimeout(10*time.Second))
	start := time.Now()
	finish(t, store, "key", "answer")
	if took := time.Since(start); took > time.Second {
		t.Errorf("a first run took %s without its hot tier", took)
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("the log says %q, want the cause", log.String())
	}
}
