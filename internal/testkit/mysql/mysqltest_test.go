package mysqltest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

var addressPattern = regexp.MustCompile(`^(\w+)@tcp\((127\.0\.0\.1:\d+)\)/(\w+)$`)

// ask runs one statement, and returns its first value.
func ask(t *testing.T, dsn, statement string) string {
	t.Helper()
	parts := addressPattern.FindStringSubmatch(dsn)
	value, err := query(parts[2], parts[1], parts[3], statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

// onEach runs a test on both vendors' servers.
func onEach(t *testing.T, test func(t *testing.T, v *Vendor)) {
	t.Helper()
	for _, v := range []*Vendor{MySQL, MariaDB} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

func TestDataSurvives(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, v *Vendor) {
		server := v.Start(t, "max_connections=17")
		address := server.DSN()
		ask(t, address, "CREATE TABLE owner (name TEXT) ENGINE=InnoDB")
		for i, end := range []func(*Server){(*Server).Kill, (*Server).Stop, func(*Server) {}, (*Server).Pause} {
			ask(t, address, "INSERT INTO owner VALUES ('money')")
			end(server)
			server.Restart()
			if server.DSN() != address {
				t.Errorf("the server moved from %s to %s", address, server.DSN())
			}
			if got := ask(t, address, "SELECT count(*) FROM owner"); got != strconv.Itoa(i+1) {
				t.Errorf("the table has %s rows, want %d", got, i+1)
			}
		}
		if got := ask(t, server.As(address, "root"), "SELECT @@max_connections"); got != "17" {
			t.Errorf("max_connections is %s, want the setting 17", got)
		}
		if got := ask(t, address, "SELECT @@version"); !strings.HasPrefix(server.program.version, got[:strings.IndexByte(got, '.')]) {
			t.Errorf("the server has version %s, want %s", got, server.program.version)
		}
	})
}

func TestSharedDatabasesShareNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, v *Vendor) {
		one, other := v.Shared(t), v.Shared(t)
		ask(t, one, "CREATE TABLE owner (name TEXT)")
		if got := ask(t, other, "SHOW TABLES"); got != "" {
			t.Errorf("the other database has the table %s, want none", got)
		}
	})
}

func TestFailedStatements(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, v *Vendor) {
		address := addressPattern.FindStringSubmatch(v.Shared(t))[2]
		if _, err := query(address, "root", "mysql", "SELECT nothing FROM nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere") {
			t.Errorf("a wrong statement returned %v, want the server's error", err)
		}
		if _, err := query(address, "stranger", "mysql", "SELECT 1"); err == nil || !strings.Contains(err.Error(), "stranger") {
			t.Errorf("a stranger got %v, want no access", err)
		}
	})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for banner, vendor := range map[string]*Vendor{
		"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu":              MariaDB,
		"mariadbd  Ver 10.6.0-MariaDB for Linux":                                     MariaDB,
		"mysqld  Ver 11.4.1-MariaDB for Linux":                                       MariaDB,
		"mariadbd  Ver 10.5.9-MariaDB for Linux":                                     nil,
		"/usr/sbin/mysqld  Ver 8.0.36-0ubuntu0.22.04.1 for Linux on x86_64":          MySQL,
		"/repository/build/mysql/server  Ver 9.7.4-2 for Linux on x86_64 ((Debian))": MySQL,
		"mysqld  Ver 5.7.44 for Linux":                                               nil,
		"no version":                                                                 nil,
	} {
		for _, v := range []*Vendor{MySQL, MariaDB} {
			if version, err := v.check(banner); (err == nil) != (v == vendor) || err == nil && !strings.Contains(banner, version) {
				t.Errorf("%s for %s: %q and %v", banner, v.name, version, err)
			}
		}
	}
	for _, v := range []*Vendor{MySQL, MariaDB} {
		if _, err := v.locate([]string{"no such program", "/nowhere/*"}); err == nil || !strings.Contains(err.Error(), v.install) {
			t.Errorf("without programs: %v, want the way to get %s", err, v.name)
		}
	}
}
