package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/adapters/inspector"
	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/memstore"
	"github.com/oncekey/oncekey/core/pgstore"
	"github.com/oncekey/oncekey/core/redisstore"
	"github.com/oncekey/oncekey/core/storage"
	"github.com/oncekey/oncekey/core/tieredstore"
)

// place says where the records are.
type place struct {
	Redis    string        `group:"Where the records are" placeholder:"URL" env:"ONCEKEY_REDIS" help:"Records in Redis, such as redis://user:secret@host:6379/0. With ?addr=host:port for each node: a Cluster. With ?master_name=name: Sentinel."`
	Prefix   string        `group:"Where the records are" placeholder:"TEXT" default:"oncekey:" env:"ONCEKEY_PREFIX" help:"The prefix of the program's redisstore."`
	Postgres string        `group:"Where the records are" placeholder:"DSN" env:"ONCEKEY_POSTGRES" help:"Records in PostgreSQL, such as postgres://user:secret@host/database. Together with --redis: a tieredstore."`
	Table    string        `group:"Where the records are" placeholder:"NAME" default:"oncekey_records" env:"ONCEKEY_TABLE" help:"The table of the program's pgstore, or of its sqlstore in PostgreSQL. A schema and a dot may precede it."`
	URL      string        `group:"Where the records are" name:"url" placeholder:"URL" env:"ONCEKEY_URL" help:"The inspector page of a service, such as https://host/ops/idempotency/."`
	Token    string        `group:"Where the records are" env:"ONCEKEY_TOKEN" help:"Sent to the page as Authorization: Bearer."`
	Service  string        `group:"Where the records are" placeholder:"NAME" env:"ONCEKEY_SERVICE" help:"The name that the program gives to core.WithService. A page knows it."`
	Policies string        `group:"Where the records are" placeholder:"FILE" env:"ONCEKEY_POLICIES" help:"The program's file of policies (tablefile), to know what a retry gets. A page knows them."`
	Derive   []string      `group:"Where the records are" placeholder:"NAME" env:"ONCEKEY_DERIVE" help:"A name that the program gives to core.DeriveKey: show prints the derived key."`
	As       string        `group:"Where the records are" placeholder:"NAME" default:"${user}" env:"ONCEKEY_OPERATOR" help:"Your name in the log of changes. A page knows it."`
	Timeout  time.Duration `group:"Where the records are" placeholder:"DURATION" help:"For each call. Default: 30s, and 10s for each request of verify."`

	closers []func()
}

// choose drops a place that only variables name where flags name another one: a page, or a store.
func (p *place) choose(path []*kong.Path) {
	var page, store bool
	for _, part := range path {
		if part.Flag != nil {
			page = page || part.Flag.Name == "url"
			store = store || part.Flag.Name == "redis" || part.Flag.Name == "postgres"
		}
	}
	switch {
	case page && !store:
		p.Redis, p.Postgres = "", ""
	case store && !page:
		p.URL = ""
	}
}

// close ends the connections.
func (p *place) close() {
	for _, end := range p.closers {
		end()
	}
}

// callTimeout is the default of --timeout for a call of a store or a page.
const callTimeout = 30 * time.Second

// timeout is the time for a call, by default the usual one.
func (p *place) timeout(usual time.Duration) time.Duration { return cmp.Or(p.Timeout, usual) }

// page returns the page at the URL, or one in this process on the store.
func (p *place) page(out *printer) (*page, error) {
	if p.URL != "" {
		if p.Redis != "" || p.Postgres != "" {
			return nil, usage("a page (--url, ONCEKEY_URL) is given with a store (--redis, --postgres, or their variables): give the page, or its store")
		}
		return p.remote(out)
	}
	store, err := p.store()
	if err != nil {
		return nil, err
	}
	return p.local(store, out)
}

func (p *place) remote(out *printer) (*page, error) {
	base, err := url.Parse(strings.TrimSuffix(p.URL, "/") + "/")
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || isCut(base) || base.RawQuery+base.Fragment != "" {
		return nil, usage("--url: give the http or https URL of an inspector page, such as https://host/ops/idempotency/, without a query; %s", inSecrets) // p.URL can have a password
	}
	header := make(http.Header)
	if user := base.User; user != nil {
		r := &http.Request{Header: header}
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
	} else if p.Token != "" {
		header.Set("Authorization", "Bearer "+p.Token)
	}
	base.User = nil // errors name the URL
	return &page{base: base, header: header, client: &http.Client{Transport: out.network, Timeout: p.timeout(callTimeout), CheckRedirect: samePlace}}, nil
}

// local returns the page of an engine that serves no request.
func (p *place) local(store storage.Store, out *printer) (*page, error) {
	options := []core.Option{core.WithObserver(event.Log(slog.New(slog.NewTextHandler(out.err, nil))))}
	if p.Service != "" {
		options = append(options, core.WithService(p.Service))
	}
	engine, err := core.New(store, core.SharedScope, options...)
	if err != nil {
		return nil, usageError{err}
	}
	if err := p.declare(engine); err != nil {
		return nil, err
	}
	operator := inspector.Operator{Name: cmp.Or(p.As, userName()), May: inspector.Read | inspector.Reveal | inspector.Settle}
	handler, err := inspector.New(engine, func(*http.Request) (inspector.Operator, error) { return operator, nil }, inspector.Derived(p.Derive...))
	if err != nil {
		return nil, err
	}
	return &page{base: &url.URL{Scheme: "http", Host: "this-process", Path: "/"}, client: &http.Client{Transport: inProcess{handler}, Timeout: p.timeout(callTimeout)}}, nil
}

// declare gives the program's policies to the engine.
func (p *place) declare(engine *core.Engine) error {
	if p.Policies == "" {
		return nil
	}
	if _, err := declareFile(engine, p.Policies); err != nil {
		return usageError{err}
	}
	return nil
}

// store opens the store of the command line.
func (p *place) store() (storage.Store, error) {
	switch {
	case p.Redis == "" && p.Postgres == "":
		return nil, usage("where are the records? Give --redis, --postgres, both for a tieredstore, or --url of an inspector page")
	case p.Postgres == "":
		return p.redis()
	case p.Redis == "":
		return p.postgres()
	}
	hot, err := p.redis()
	if err != nil {
		return nil, err
	}
	durable, err := p.postgres()
	if err != nil {
		return nil, err
	}
	return tieredstore.New(hot, durable), nil
}

// redis opens the store in Redis. It connects with the first call.
func (p *place) redis() (storage.Store, error) {
	client, err := redisClient(p.Redis)
	if err != nil {
		return nil, usage("--redis: it is no URL such as redis://user:secret@host:6379/0: %s; %s", reasonOf(err), inSecrets)
	}
	p.closers = append(p.closers, func() { _ = client.Close() })
	return redisstore.New(client, redisstore.Prefix(p.Prefix)), nil
}

// redisClient returns a client of one server, of a Cluster or of Sentinel.
func redisClient(address string) (redis.UniversalClient, error) {
	parsed, err := url.Parse(address)
	if err != nil || isCut(parsed) {
		return nil, errors.New("invalid URL")
	}
	switch query := parsed.Query(); {
	case query.Has("master_name"):
		options, err := redis.ParseFailoverURL(address)
		if err != nil {
			return nil, err
		}
		options.ContextTimeoutEnabled, options.DialerRetries = true, 1
		return redis.NewFailoverClient(options), nil
	case query.Has("addr"):
		options, err := redis.ParseClusterURL(address)
		if err != nil {
			return nil, err
		}
		options.ContextTimeoutEnabled, options.DialerRetries = true, 1
		return redis.NewClusterClient(options), nil
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	options.ContextTimeoutEnabled, options.DialerRetries = true, 1
	return redis.NewClient(options), nil
}

// inSecrets is the advice about passwords in URLs.
const inSecrets = "in a secret write / ? # @ and % as %2F %3F %23 %40 and %25"

// isCut reports whether a bare / ? or # in the password has ended the host of a URL too
// early: a part of the password is then taken for the path, or for a parameter.
func isCut(address *url.URL) bool {
	return strings.Contains(address.EscapedPath()+address.RawQuery+address.EscapedFragment(), "@")
}

// postgres opens the store in PostgreSQL. It connects with the first call.
func (p *place) postgres() (*pgstore.Store, error) {
	pool, err := p.pool()
	if err != nil {
		return nil, err
	}
	table, err := p.table()
	if err != nil {
		return nil, err
	}
	return pgstore.New(pool, table), nil
}

// tableName matches the names that pgstore.Table takes.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,40}$`)

func (p *place) table() (pgstore.Option, error) {
	if !tableName.MatchString(p.Table) {
		return nil, usage("--table is %q: give at most 41 letters, digits and underscores, possibly after a schema of at most 63 and a dot", p.Table)
	}
	return pgstore.Table(p.Table), nil
}

func (p *place) pool() (*pgxpool.Pool, error) {
	if p.Postgres == "" {
		return nil, usage("give --postgres: sweep and migrate work on PostgreSQL only")
	}
	if address, err := url.Parse(p.Postgres); err == nil && address.Scheme != "" && isCut(address) {
		return nil, usage("--postgres: the DSN cannot be read: %s", inSecrets)
	}
	config, err := pgxpool.ParseConfig(p.Postgres)
	if err != nil {
		return nil, usage("--postgres: the DSN cannot be read: %s", reasonOf(err))
	}
	// A server that accepts a connection and never responds would keep a sweep waiting for ever.
	if limit, own := p.timeout(callTimeout), &config.ConnConfig.ConnectTimeout; *own == 0 || *own > limit {
		*own = limit
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, usage("--postgres: %s", reasonOf(err))
	}
	p.closers = append(p.closers, pool.Close)
	return pool, nil
}

// reasonOf returns a driver's error about an address, with the driver's own words only: every
// other one may be a part of a password.
func reasonOf(err error) string {
	text := err.Error()
	const end = "`: " // of the DSN
	if at := strings.LastIndex(text, end); at >= 0 {
		text = text[at+len(end):]
	}
	words := strings.Fields(text)
	for i, one := range words {
		if !slices.Contains(driverWords, strings.Trim(one, `():,;"`)) {
			words[i] = "..."
		}
	}
	return strings.Join(slices.CompactFunc(words, func(a, b string) bool { return a == "..." && b == "..." }), " ")
}

// driverWords are the words of the drivers' errors.
var driverWords = strings.Fields(`redis invalid URL scheme http https database number option unexpected duration port host name missing bad
	failed to configure TLS sslmode sslcert sslkey sslrootcert sslpassword is be in the of a an not cannot parse as or and keyword/value
	unterminated quoted string connection info percent-encoded token password unable read load CA file open add cert no such directory
	pool_max_conns pool_min_conns pool_size max_retries db dial_timeout read_timeout write_timeout connect_timeout pool_timeout
	target_session_attrs min_protocol_version must both require required parameter unknown syntax value`)

// anyPage returns the page at the URL, or one on an empty store, for commands that only
// compute.
func (p *place) anyPage(out *printer) (*page, error) {
	if p.URL != "" {
		return p.remote(out)
	}
	return p.local(anyStore{memstore.New()}, out)
}
