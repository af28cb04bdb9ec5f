package sqlstore_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/oncekey/oncekey/internal/testkit"
	mysqltest "github.com/oncekey/oncekey/internal/testkit/mysql"
)

// overVendors runs a test of the servers themselves.
func overVendors(t *testing.T, test func(t *testing.T, v *mysqltest.Vendor)) {
	t.Helper()
	testkit.Each(t, map[string]*mysqltest.Vendor{"MySQL": mysqltest.MySQL, "MariaDB": mysqltest.MariaDB}, test)
}

// ask runs a query on a connection of its own, and returns its value.
func ask(t *testing.T, dsn, query string) (value int) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	must(t, err)
	defer db.Close()
	must(t, db.QueryRowContext(t.Context(), query).Scan(&value))
	return value
}

func TestDataOfAServerSurvives(t *testing.T) {
	t.Parallel()
	overVendors(t, func(t *testing.T, v *mysqltest.Vendor) {
		server := v.Start(t, "max_connections=17")
		address := server.DSN()
		server.Execute("CREATE TABLE owner (name TEXT) ENGINE=InnoDB")
		for i, end := range []func(*mysqltest.Server){
			(*mysqltest.Server).Kill, (*mysqltest.Server).Stop, func(*mysqltest.Server) {}, (*mysqltest.Server).Pause,
		} {
			server.Execute(fmt.Sprintf("INSERT INTO owner VALUES ('%d')", i))
			end(server)
			server.Restart()
			if rows := ask(t, address, "SELECT count(*) FROM owner"); rows != i+1 || server.DSN() != address {
				t.Errorf("the table at %s has %d rows, want %d at %s", server.DSN(), rows, i+1, address)
			}
		}
		testkit.Equal(t, ask(t, address, "SELECT @@max_connections"), 17, "max_connections")
	})
}

func TestSharedDatabasesShareNothing(t *testing.T) {
	t.Parallel()
	overVendors(t, func(t *testing.T, v *mysqltest.Vendor) {
		tables := "SELECT count(*) FROM information_schema.tables WHERE table_schema = database()"
		if one, other := v.Shared(t), v.Shared(t); one == other || ask(t, one, tables)+ask(t, other, tables) != 0 {
			t.Errorf("the databases are %s and %s, want two empty ones", one, other)
		}
	})
}
