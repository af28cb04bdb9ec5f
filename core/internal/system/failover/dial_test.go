package failover

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	redistest "github.com/oncekey/oncekey/internal/testkit/redis"
)

// Case 16: a client dials the master while another server becomes the master, as after a
// lost packet. The old master was frozen, and takes writes until a sentinel makes it a
// replica. The claim has to reach the new master, where other processes look for it.
func TestDialThatOutlastsAFailover(t *testing.T) {
	t.Parallel()
	takeTurn(t)
	group := redistest.StartSentinel(t)
	old := group.Master()
	var slow atomic.Bool
	begun, late := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.MasterName, SentinelAddrs: group.SentinelAddrs(), ContextTimeoutEnabled: true, DialTimeout: time.Minute,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if slow.Load() && address == old.Addr() {
				begin()
				<-late
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	t.Cleanup(func() { client.Close() })
	store := redisstore.New(client)
	if err := store.Check(t.Context()); err != nil {
		t.Fatalf("Check returned %v", err)
	}
	slow.Store(true)
	if _, err := old.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal"); err != nil { // so that the claim dials
		t.Fatalf("CLIENT KILL returned %v", err)
	}

	claimed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		claim := storage.Claim{Key: storageKey("k"), Token: storage.Token{1}, Fingerprint: "f", LockTTL: time.Minute, Retain: time.Hour}
		_, _, err := store.Acquire(ctx, claim)
		claimed <- err
	}()
	<-begun
	lost := time.After(time.Second) // a lost packet is sent again after a second
	old.Pause()
	successor := group.Promote(old)
	old.Resume()
	<-lost
	close(late)
	if err := <-claimed; err != nil {
		t.Fatalf("Acquire returned %v", err)
	}
	for server, want := range map[*redistest.Server]int64{old: 0, successor: 1} {
		has, err := server.Do(t.Context(), "EXISTS", nameOf("k"))
		if err != nil || has != want {
			t.Errorf("EXISTS at %s returned %v, %v, want %d; the new master is %s", server.Addr(), has, err, want, successor.Addr())
		}
	}
}
