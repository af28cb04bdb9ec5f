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

	"github.com/redis/go-redis/v9"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// MasterName is the name of the master that the sentinels of [StartSentinel] watch.
const MasterName = "records"

const (
	sentinelReplicas = 2
	sentinelCount    = 3
	// sentinelQuorum is out of reach, so the sentinels fail over only on request by [Sentinel.Promote]. On a busy machine
	// they would otherwise replace a slow master by an empty replica.
	sentinelQuorum = sentinelCount + 1
	// sentinelDownAfter is the time after which a sentinel treats an unresponsive server as down.
	sentinelDownAfter = 5 * time.Second
	// sentinelFailoverTimeout bounds the steps of a failover. Then the sentinels start the failover again.
	sentinelFailoverTimeout = 15 * time.Second
)

// Sentinel is a master with replicas, and sentinels that replace the master on request by [Sentinel.Promote]. Its servers
// may be killed, frozen and restarted like any [Server].
type Sentinel struct {
	t         testing.TB
	servers   []*Server
	sentinels []*Server
}

// StartSentinel runs a new, empty master with two replicas and three sentinels. It returns when the sentinels know each
// other and the replicas have caught up with the master.
func StartSentinel(t testing.TB) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t}
	master := Start(t, quickReplication()...)
	s.servers = append(s.servers, master)
	for range sentinelReplicas {
		arguments := append(quickReplication(), "--replicaof", "127.0.0.1", strconv.Itoa(master.port))
		s.servers = append(s.servers, Start(t, arguments...))
	}
	s.awaitCaughtUp(master) // a sentinel that meets the replicas later asks for the replicas again only after ten seconds
	for range sentinelCount {
		s.sentinels = append(s.sentinels, startSentinel(t, master))
	}
	await(t, "the sentinels know each other and all servers", s.complete)
	return s
}

// startSentinel runs one sentinel, which stores its state in its own configuration file.
func startSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	s := &Server{t: t, binary: serverproc.Require(t, findBinary), directory: serverproc.Folder(t)}
	s.configuration = filepath.Join(s.directory, "sentinel.conf")
	settings := []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", MasterName, master.port, sentinelQuorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, sentinelDownAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", MasterName, sentinelFailoverTimeout.Milliseconds()),
		fmt.Sprintf("sentinel parallel-syncs %s %d", MasterName, sentinelReplicas),
	}
	if err := os.WriteFile(s.configuration, []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.start()
	return s
}

// complete returns nil if each sentinel can reach all replicas and all other sentinels.
func (s *Sentinel) complete(ctx context.Context) error {
	for _, sentinel := range s.sentinels {
		for question, want := range map[string]int{"replicas": sentinelReplicas, "sentinels": sentinelCount - 1} {
			peers, err := send(ctx, sentinel, redis.NewMapStringStringSliceCmd(ctx, "sentinel", question, MasterName))
			if err != nil {
				return err
			}
			if len(peers) != want {
				return fmt.Errorf("%s replies to SENTINEL %s with %d entries, want %d", sentinel.Addr(), question, len(peers), want)
			}
			for _, peer := range peers {
				if flags := peer["flags"]; flags != "slave" && flags != "sentinel" {
					return fmt.Errorf("%s reports an entry of SENTINEL %s as %q", sentinel.Addr(), question, flags)
				}
			}
		}
	}
	return nil
}

// SentinelAddrs returns the addresses of the sentinels.
func (s *Sentinel) SentinelAddrs() []string { return addresses(s.sentinels) }

// Master waits until all sentinels name the same server and that server runs as a master. After the deadline the test
// fails.
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
	var master *Server
	for _, sentinel := range s.sentinels {
		named, err := s.named(ctx, sentinel)
		if err != nil {
			return nil, err
		}
		if master == nil {
			master = named
		}
		if named != master {
			return nil, fmt.Errorf("%s names %s, and another sentinel names %s", sentinel.Addr(), named.Addr(), master.Addr())
		}
	}
	state, err := master.replication(ctx)
	if err != nil {
		return nil, err
	}
	if state["role"] != "master" {
		return nil, fmt.Errorf("%s was elected and is a %s", master.Addr(), state["role"])
	}
	return master, nil
}

// named returns the server that a sentinel names as the master.
func (s *Sentinel) named(ctx context.Context, sentinel *Server) (*Server, error) {
	address, err := send(ctx, sentinel, redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", MasterName))
	if err != nil {
		return nil, err
	}
	for _, server := range s.servers {
		if server.Addr() == strings.Join(address, ":") {
			return server, nil
		}
	}
	return nil, fmt.Errorf("%s names no server of this group: %v", sentinel.Addr(), address)
}

// Promote makes the sentinels replace a killed master by one of its replicas. It returns the replica when all sentinels name
// it. After the deadline the test fails.
func (s *Sentinel) Promote(dead *Server) *Server {
	s.t.Helper()
	await(s.t, "a sentinel replaces the master", func(ctx context.Context) error {
		return s.failOver(ctx, dead)
	})
	return s.Master()
}

// failOver returns nil once the first sentinel names another master than the dead one. It starts a failover if none is under
// way, because sentinels abandon a failover without a suitable replica.
func (s *Sentinel) failOver(ctx context.Context, dead *Server) error {
	leader := s.sentinels[0]
	master, err := s.named(ctx, leader)
	if err != nil || master != dead {
		return err
	}
	state, err := leader.masterState(ctx)
	if err != nil {
		return err
	}
	// Without this check, the command could arrive after the end of the failover, and would start a second one.
	if state["port"] == strconv.Itoa(dead.port) && !strings.Contains(state["flags"], "failover_in_progress") {
		if _, err := leader.Do(ctx, "SENTINEL", "FAILOVER", MasterName); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s still names %s, as %v", leader.Addr(), dead.Addr(), state["flags"])
}

// masterState is the master as a sentinel sees it.
func (s *Server) masterState(ctx context.Context) (map[string]string, error) {
	return send(ctx, s, redis.NewMapStringStringCmd(ctx, "sentinel", "master", MasterName))
}

// Replicas returns the servers other than the master, including dead ones.
func (s *Sentinel) Replicas() []*Server {
	s.t.Helper()
	return s.besides(s.Master())
}

func (s *Sentinel) besides(master *Server) []*Server {
	return slices.DeleteFunc(slices.Clone(s.servers), func(server *Server) bool { return server == master })
}

// KillMaster kills the master and returns the server. [Sentinel.Promote] replaces the master.
func (s *Sentinel) KillMaster() *Server {
	s.t.Helper()
	master := s.Master()
	master.Kill()
	return master
}

// AwaitReplication waits until both replicas have all of the master's writes at the time of the call. All servers must run.
func (s *Sentinel) AwaitReplication() { s.t.Helper(); s.awaitCaughtUp(s.Master()) }

func (s *Sentinel) awaitCaughtUp(master *Server) {
	s.t.Helper()
	await(s.t, "the replicas catch up", func(ctx context.Context) error {
		return caughtUp(ctx, master, s.besides(master))
	})
}
