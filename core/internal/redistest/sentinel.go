package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MasterName is what the sentinels of [StartSentinel] call the master that they watch.
const MasterName = "records"

const (
	// SentinelDownAfter is how long a master must be silent before a sentinel takes it for dead.
	SentinelDownAfter = time.Second
	// SentinelFailoverTimeout bounds the steps of a fail-over. An election that nobody wins is repeated after twice this.
	SentinelFailoverTimeout = 1500 * time.Millisecond
)

const (
	sentinelReplicas = 2
	sentinelCount    = 3
	sentinelQuorum   = 2
)

// Sentinel is a master with replicas, and the sentinels that replace it by one of them when it dies. Its servers may be
// killed, frozen and restarted like any [Server].
type Sentinel struct {
	t         testing.TB
	servers   []*Server
	sentinels []*Server
}

// StartSentinel runs a new, empty master with two replicas and three sentinels, and returns when they know each other and
// the replicas have caught up with the master.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t}
	master := Start(t, quickReplication()...)
	s.servers = append(s.servers, master)
	for range sentinelReplicas {
		arguments := append(quickReplication(), "--replicaof", "127.0.0.1", strconv.Itoa(master.port))
		s.servers = append(s.servers, Start(t, arguments...))
	}
	s.awaitCaughtUp(master) // a sentinel that meets the replicas later takes ten seconds to ask for them again
	for range sentinelCount {
		s.sentinels = append(s.sentinels, startSentinel(t, master))
	}
	await(t, "the sentinels know each other and all servers", s.complete)
	return s
}

// startSentinel runs one sentinel, which keeps what it learns in a configuration file of its own.
func startSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	s := &Server{t: t, binary: requireBinary(t), directory: t.TempDir()}
	s.configuration = filepath.Join(s.directory, "sentinel.conf")
	settings := []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", MasterName, master.port, sentinelQuorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, SentinelDownAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, SentinelFailoverTimeout.Milliseconds()),
		fmt.Sprintf("sentinel parallel-syncs %s %d", MasterName, sentinelReplicas),
	}
	if err := os.WriteFile(s.configuration, []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.start()
	return s
}

// complete returns nil when each sentinel sees all replicas and all other sentinels, and can talk to them.
func (s *Sentinel) complete(ctx context.Context) error {
	for _, sentinel := range s.sentinels {
		for question, want := range map[string]int{"REPLICAS": sentinelReplicas, "SENTINELS": sentinelCount - 1} {
			answer, err := sentinel.Do(ctx, "SENTINEL", question, MasterName)
			if err != nil {
				return err
			}
			peers, _ := answer.([]any)
			if len(peers) != want {
				return fmt.Errorf("%s answers SENTINEL %s with %d, want %d", sentinel.Addr(), question, len(peers), want)
			}
			for _, peer := range peers {
				if flags := pairs(peer)["flags"]; flags != "slave" && flags != "sentinel" {
					return fmt.Errorf("%s sees one of its SENTINEL %s as %q", sentinel.Addr(), question, flags)
				}
			}
		}
	}
	return nil
}

// pairs reads a list of names and values.
func pairs(answer any) map[string]any {
	list, _ := answer.([]any)
	found := make(map[string]any)
	for pair := range slices.Chunk(list, 2) {
		if name, is := pair[0].(string); is && len(pair) == 2 {
			found[name] = pair[1]
		}
	}
	return found
}

// SentinelAddrs are the addresses of the sentinels.
func (s *Sentinel) SentinelAddrs() []string { return addresses(s.sentinels) }

// Master waits until most sentinels name the same server, and that runs as a master, and returns it. It fails the test
// when that does not happen.
func (s *Sentinel) Master() *Server {
	s.t.Helper()
	var master *Server
	await(s.t, "the sentinels name a master", func(ctx context.Context) (err error) {
		master, err = s.elected(ctx)
		return err
	})
	return master
}

func (s *Sentinel) elected(ctx context.Context) (*Server, error) {
	votes := make(map[*Server]int)
	for _, sentinel := range s.sentinels {
		answer, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
		if err != nil {
			continue // it may be dead: the others count
		}
		for _, server := range s.servers {
			if address, _ := answer.([]any); len(address) == 2 && address[1] == strconv.Itoa(server.port) {
				votes[server]++
			}
		}
	}
	for server, count := range votes {
		if count < sentinelQuorum {
			continue
		}
		state, err := server.replication(ctx)
		if err != nil {
			return nil, err
		}
		if state["role"] != "master" {
			return nil, fmt.Errorf("%s was elected and is a %s", server.Addr(), state["role"])
		}
		return server, nil
	}
	return nil, fmt.Errorf("%d sentinels name no server together", len(s.sentinels))
}

// Replicas are the servers other than the master, dead ones too.
func (s *Sentinel) Replicas() []*Server {
	s.t.Helper()
	return s.besides(s.Master())
}

func (s *Sentinel) besides(master *Server) []*Server {
	return slices.DeleteFunc(slices.Clone(s.servers), func(server *Server) bool { return server == master })
}

// KillMaster kills the master and returns it. The sentinels replace it; [Sentinel.Master] waits for that.
func (s *Sentinel) KillMaster() *Server {
	s.t.Helper()
	master := s.Master()
	master.Kill()
	return master
}

// AwaitReplication returns when both replicas have all that the master had at the time of the call. All servers must run.
func (s *Sentinel) AwaitReplication() { s.t.Helper(); s.awaitCaughtUp(s.Master()) }

func (s *Sentinel) awaitCaughtUp(master *Server) {
	s.t.Helper()
	await(s.t, "the replicas catch up", func(ctx context.Context) error {
		return caughtUp(ctx, master, s.besides(master))
	})
}
