package mysqltest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	serverproc "github.com/oncekey/oncekey/internal/testkit/server"
)

// galeraNodes is the size of a cluster: two of three are a majority.
const galeraNodes = 3

// galeraLibraries are the places of the library that replicates.
var galeraLibraries = []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib64/galera-4/libgalera_smm.so"}

var synchronized = regexp.MustCompile(`Synchronized with group`)

// StartGalera runs a Galera cluster of three MariaDB servers, each of which accepts writes. It returns when all are
// synchronized, and removes them at the end of the test. Without MariaDB, its Galera library or rsync the test is skipped, or
// fails if ONCEKEY_REQUIRE_SERVERS is set.
func StartGalera(t testing.TB) []*Server {
	t.Helper()
	serverproc.Require(t, MariaDB.find)
	library := slices.IndexFunc(galeraLibraries, func(path string) bool { _, err := os.Stat(path); return err == nil })
	if library < 0 {
		serverproc.Missing(t, "no Galera library: install it (Debian: apt-get install galera-4 rsync)")
	}
	at := func() string { return fmt.Sprintf("127.0.0.1:%d", serverproc.FreePort(t)) }
	var addresses []string
	settings := func(more ...string) []string {
		cluster, address := strings.Join(addresses, ","), at()
		addresses = append(addresses, address)
		return append([]string{
			"wsrep_on=ON", "wsrep_provider=" + galeraLibraries[library], "wsrep_cluster_address=gcomm://" + cluster,
			"wsrep_node_address=127.0.0.1", "wsrep_sst_method=rsync", "wsrep_sst_receive_address=" + at(),
			"wsrep_provider_options=gmcast.listen_addr=tcp://" + address + ";ist.recv_addr=" + at() + ";gcache.size=16M",
			"binlog_format=ROW", "innodb_autoinc_lock_mode=2",
		}, more...)
	}
	nodes := []*Server{MariaDB.Start(t, settings("wsrep-new-cluster")...)}
	// A node that begins with the first one's data needs no copy by the network, for which each vendor's package has rights of
	// its own.
	nodes[0].Stop()
	begin := filepath.Join(nodes[0].folder, "begin")
	if err := os.CopyFS(begin, os.DirFS(filepath.Join(nodes[0].folder, data))); err != nil {
		t.Fatalf("mysqltest: %v", err)
	}
	nodes[0].Restart()
	for range galeraNodes - 1 {
		nodes = append(nodes, MariaDB.startFrom(t, begin, settings()...))
	}
	for _, node := range nodes {
		node.process.AwaitLine(synchronized)
	}
	return nodes
}
