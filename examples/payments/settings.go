package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/policy"
)

// routers are the values of -router. Both serve the same handlers under the same
// policies.
var routers = map[string]func(s service, engine *core.Engine, times times) http.Handler{
	"chi": chiRouter,
	"gin": ginRouter,
}

// times are those of the policies that flags set.
type times struct{ lockTTL, storeTimeout time.Duration }

// settings are the values of the command line.
type settings struct {
	addr     string
	router   string
	store    string
	redis    *redis.Options
	postgres string
	file     string // of SQLite
	dsn      string // of MySQL
	times    times
	ledger   string
	inspect  bool
}

// parseSettings reads the command line. Its errors name the flag, the given value and the
// expected form. After -h the error is flag.ErrHelp.
func parseSettings(args []string, stdout io.Writer) (settings, error) {
	s := settings{
		addr: "127.0.0.1:8080", router: "chi", store: "memory", times: times{30 * time.Second, policy.DefaultStoreTimeout},
		redis: &redis.Options{Addr: "127.0.0.1:6379"}, postgres: "postgres://127.0.0.1:5432/postgres?sslmode=disable",
		file: "payments.db", dsn: "root@tcp(127.0.0.1:3306)/payments",
	}
	flags := flag.NewFlagSet("payments", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error, in one line
	flags.Func("addr", "`host:port` to listen on; port 0 picks a free port (default 127.0.0.1:8080)", s.setAddr)
	flags.Func("router", "`name`: "+choice(routers)+" (default chi)", oneOf(&s.router, routers))
	flags.Func("store", "`name`: "+choice(stores)+"; POST /transfers takes mysql, postgres or tiered (default memory)", oneOf(&s.store, stores))
	flags.Func("redis", "`URL` of the Redis (default redis://127.0.0.1:6379/0)", s.setRedis)
	flags.Func("postgres", "`URL` of the PostgreSQL, whose tables are made at the start (default "+s.postgres+")", s.setPostgres)
	flags.StringVar(&s.file, "file", s.file, "`path` of the SQLite database, which is made at the start")
	flags.StringVar(&s.dsn, "dsn", s.dsn, "`address` of the MySQL or MariaDB, in the form of go-sql-driver/mysql, whose tables are made at the start")
	flags.Func("lock-ttl", "`duration` for which a crash blocks its key (default 30s)", duration(&s.times.lockTTL, 100*time.Millisecond, "30s"))
	flags.Func("store-timeout", "`duration` of a payment's longest wait for a call of the store (default 500ms)",
		duration(&s.times.storeTimeout, 10*time.Millisecond, "500ms"))
	flags.StringVar(&s.ledger, "ledger", "", "`file` to append every side effect except transfers to; processes can share the file")
	flags.BoolVar(&s.inspect, "inspect", false, "serve a page for operators, and print its address and a password")

	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stdout)
		fmt.Fprintln(stdout, "Payments is a shop that charges cards once.")
		flags.PrintDefaults()
	case err == nil && flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	return s, err
}

func (s *settings) setAddr(value string) error {
	_, port, err := net.SplitHostPort(value)
	if _, notANumber := strconv.ParseUint(port, 10, 16); err != nil || notANumber != nil {
		return errors.New("give host:port with a port from 0 to 65535, such as 127.0.0.1:8080")
	}
	s.addr = value
	return nil
}

func (s *settings) setRedis(value string) error {
	options, err := redis.ParseURL(value)
	if err != nil {
		return fmt.Errorf("give a URL such as redis://127.0.0.1:6379/0 (%w)", err)
	}
	s.redis = options
	return nil
}

func (s *settings) setPostgres(value string) error {
	if _, err := pgxpool.ParseConfig(value); err != nil { // the error shows no password
		return fmt.Errorf("give a URL such as %s (%w)", s.postgres, err)
	}
	s.postgres = value
	return nil
}

// duration keeps the value within the limits of the routes' policies. An invalid policy
// panics when its route is declared.
func duration(target *time.Duration, least time.Duration, example string) func(string) error {
	return func(value string) error {
		given, err := time.ParseDuration(value)
		if err != nil || given < least || given > time.Hour {
			return fmt.Errorf("give a duration from %s to 1h, such as %s", least, example)
		}
		*target = given
		return nil
	}
}

func oneOf[V any](target *string, choices map[string]V) func(string) error {
	return func(value string) error {
		if _, known := choices[value]; !known {
			return errors.New("give " + choice(choices))
		}
		*target = value
		return nil
	}
}

func choice[V any](choices map[string]V) string {
	names := slices.Sorted(maps.Keys(choices))
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
