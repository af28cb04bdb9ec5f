package redisstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/internal/testkit"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

func TestWarnOfEviction(t *testing.T) {
	t.Parallel()
	limited := func(policy string, more ...string) []string {
		return append([]string{"--maxmemory", "100mb", "--maxmemory-policy", policy}, more...)
	}
	type test struct {
		arguments []string
		warns     bool
	}
	testkit.Each(t, map[string]test{
		"records only":            {limited("volatile-lru"), true},
		"any key":                 {limited("allkeys-random"), true},
		"nothing":                 {limited("noeviction"), false},
		"no limit":                {[]string{"--maxmemory-policy", "volatile-ttl"}, false},
		"the server does not say": {limited("volatile-lru", "--rename-command", "CONFIG", ""), false},
	}, func(t *testing.T, test test) {
		rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t, test.arguments...).Addr()})
		defer rdb.Close()
		var log bytes.Buffer
		New(rdb, Logger(slog.New(slog.NewTextHandler(&log, nil)))).warnOfEviction()
		if got := strings.Contains(log.String(), "level=WARN"); got != test.warns {
			t.Errorf("warned is %t, want %t: %s", got, test.warns, log.String())
		}
	})
}

func TestWarnsOfEvictionOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	reader, writer := io.Pipe()
	store := New(rdb, Logger(slog.New(slog.NewTextHandler(writer, nil))))
	for range 3 {
		if _, _, err := store.Acquire(t.Context(), storage.Claim{Key: "key", Token: storage.NewToken(), LockTTL: time.Minute, Retain: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	line := make([]byte, 1024)
	if n, err := reader.Read(line); err != nil || !bytes.Contains(line[:n], []byte("maxmemory-policy=volatile-lru")) {
		t.Errorf("the log says %q (%v), want a warning", line[:n], err)
	}
	writer.Close()
}

// Case 16: a hundred calls that notice a dead master cause one reload.
func TestClusterReloadsAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := &fakeCluster{}
		top := newTopology(cluster)
		dead := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		for second := range 3 {
			for range 100 {
				top.heal(t.Context(), dead)
			}
			testkit.Equal(t, cluster.reloads, second+1, "reloads in second %d", second)
			<-time.After(reloadEvery)
		}
	})
}

func TestErrorsOfDeadServers(t *testing.T) {
	t.Parallel()
	type test struct {
		err  error
		want bool
	}
	testkit.Each(t, map[string]test{
		"refused":                {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"deadline of the call":   {context.DeadlineExceeded, true},
		"deadline of the socket": {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		"cancelled":              {context.Canceled, false},
		"cut":                    {io.EOF, false},
		"refused by Redis":       {redis.ErrCrossSlot, false},
		"a replica by now":       {errors.New("MOVED 3999 127.0.0.1:6381"), true},
	}, func(t *testing.T, test test) {
		cluster := &fakeCluster{}
		newTopology(cluster).heal(t.Context(), test.err)
		testkit.Equal(t, cluster.reloads == 1, test.want, "reloaded")
	})
}

func TestOtherClientsDoNotReload(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	newTopology(rdb).heal(t.Context(), context.DeadlineExceeded)
}

type fakeCluster struct {
	redis.UniversalClient
	reloads int
}

func (c *fakeCluster) ReloadState(context.Context) { c.reloads++ }

func TestContextErrorIsAdded(t *testing.T) {
	t.Parallel()
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	passed, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if err := withContextError(passed, timeout); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, timeout) {
		t.Errorf("it is %v, want both errors", err)
	}
	if err := withContextError(t.Context(), timeout); !errors.Is(err, timeout) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is %v, want the client's error: the context has not ended", err)
	}
}

func TestNewWithoutClientPanics(t *testing.T) {
	t.Parallel()
	testkit.PanicsWith(t, func() { New(nil) }, "want a client")
	testkit.PanicsWith(t, func() { New(&redis.Client{}, nil) }, "redisstore: option 1 is nil: leave it out")
}
