package redisstore_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/redistest"
	"github.com/oncekey/oncekey/core/redisstore"
)

// Three masters share the slots: each key's commands and scripts go to its own.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t)
	for name, client := range map[string]redis.UniversalClient{"plain": cluster, "pipelined": pipelined(t, cluster)} {
		store := redisstore.New(client, redisstore.Prefix(name+":"))
		for n := range 30 {
			key := fmt.Sprintf("%064x", n)
			if n%3 == 0 {
				must(t, store.Release(t.Context(), win(t, store, claim(key))))
			}
			lease := win(t, store, claim(key))
			find(t, store, claim(key))
			must(t, store.Extend(t.Context(), lease, time.Minute))
			must(t, store.Complete(t.Context(), lease, result(key)))
			if r := find(t, store, claim(key)); string(r.Body) != key {
				t.Errorf("the record is %+v, want %s", r, key)
			}
		}
		abandoned(t, store, "key")
		next := claim("key")
		next.TakeOver = true
		if lease := win(t, store, next); lease.Attempt != 2 {
			t.Errorf("it took over as attempt %d, want 2", lease.Attempt)
		}
	}
}

func pipelined(t *testing.T, cluster *redis.ClusterClient) *redis.AutoPipeliner {
	t.Helper()
	pipeliner, err := cluster.AutoPipeline()
	must(t, err)
	return pipeliner
}

// startCluster returns a client of a cluster that serves all slots.
func startCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	const masters, slots = 3, 16384
	addresses, busPorts := make([]string, masters), make([]string, masters)
	for i := range masters {
		busPorts[i] = freePort(t)
		server := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-port", busPorts[i])
		addresses[i] = server.Addr()
		rdb := connect(t, server, nil)
		must(t, rdb.ClusterAddSlotsRange(t.Context(), i*slots/masters, (i+1)*slots/masters-1).Err())
		host, port, err := net.SplitHostPort(addresses[0])
		must(t, err)
		must(t, rdb.Do(t.Context(), "cluster", "meet", host, port, busPorts[0]).Err())
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	t.Cleanup(func() { cluster.Close() })
	eventually(t, func() bool { return agrees(t, addresses) })
	cluster.ReloadState(t.Context())
	return cluster
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	return port
}

func agrees(t *testing.T, addresses []string) bool {
	t.Helper()
	for _, address := range addresses {
		rdb := redis.NewClient(&redis.Options{Addr: address})
		info, err := rdb.ClusterInfo(t.Context()).Result()
		rdb.Close()
		if err != nil || !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
			return false
		}
	}
	return true
}
