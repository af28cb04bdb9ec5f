package mysqltest

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

var addressPattern = regexp.MustCompile(`^(\w+)@tcp\(127\.0\.0\.1:(\d+)\)/(\w+)$`)

// ask runs one statement by the client that is installed with the server.
func ask(t *testing.T, dsn, statement string) string {
	t.Helper()
	parts := addressPattern.FindStringSubmatch(dsn)
	output, err := exec.CommandContext(context.WithoutCancel(t.Context()), requirePrograms(t).client, "--no-defaults", "--host=127.0.0.1",
		"--port="+parts[2], "--user="+parts[1], "--skip-column-names", "--batch", "--execute="+statement, parts[3]).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", statement, err, output)
	}
	return strings.TrimSpace(string(output))
}

func TestDataSurvives(t *testing.T) {
	t.Parallel()
	server := Start(t, "max_connections=17")
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
}

func TestSharedDatabasesShareNothing(t *testing.T) {
	t.Parallel()
	one, other := Shared(t), Shared(t)
	ask(t, one, "CREATE TABLE owner (name TEXT)")
	if got := ask(t, other, "SHOW TABLES"); got != "" {
		t.Errorf("the other database has the tables %s, want none", got)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for banner, good := range map[string]bool{
		"mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu": true,
		"mariadbd  Ver 10.6.0-MariaDB for Linux":                        true,
		"mariadbd  Ver 11.4.1-MariaDB for Linux":                        true,
		"mariadbd  Ver 10.5.9-MariaDB for Linux":                        false,
		"mysqld  Ver 8.0.36 for Linux":                                  false,
	} {
		if err := checkVersion(banner); (err == nil) != good {
			t.Errorf("%s: %v", banner, err)
		}
	}
	if _, err := locate(func(string) (string, error) { return "", exec.ErrNotFound }); !errors.Is(err, errNotFound) {
		t.Errorf("without programs: %v, want the package to install", err)
	}
}
