package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

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
	"github.com/oncekey/oncekey/policy"
	"github.com/oncekey/oncekey/policy/tablefile"
)

// place says where the records are.
type place struct {
	Redis    string        `group:"Where the records are" placeholder:"URL" env:"ONCEKEY_REDIS" help:"Records in Redis, such as redis://user:secret@host:6379/0. With ?addr=host:port for each node: a Cluster. With ?master_name=name: Sentinel."`
	Prefix   string        `group:"Where the records are" placeholder:"TEXT" default:"oncekey:" env:"ONCEKEY_PREFIX" help:"The prefix of the program's redisstore."`
	Postgres string        `group:"Where the records are" placeholder:"DSN" env:"ONCEKEY_POSTGRES" help:"Records in PostgreSQL, such as postgres://user:secret@host/database. Together with --redis: a tieredstore."`
	Schema   string        `group:"Where the records are" placeholder:"NAME" default:"oncekey" env:"ONCEKEY_SCHEMA" help:"The schema of the program's pgstore."`
	URL      string        `group:"Where the records are" name:"url" placeholder:"URL" env:"ONCEKEY_URL" help:"The inspector page of a service, such as https://host/ops/idempotency/."`
	Token    string        `group:"Where the records are" env:"ONCEKEY_TOKEN" help:"Sent to the page as Authorization: Bearer."`
	Service  string        `group:"Where the records are" placeholder:"NAME" env:"ONCEKEY_SERVICE" help:"The name that the program gives to core.WithService. A page knows it."`
	Policies string        `group:"Where the records are" placeholder:"FILE" env:"ONCEKEY_POLICIES" help:"The program's file of policies (tablefile), to know what a retry gets. A page knows them."`
	Derive   []string      `group:"Where the records are" placeholder:"NAME" env:"ONCEKEY_DERIVE" help:"A name that the program gives to core.DeriveKey: show prints the derived key."`
	As       string        `group:"Where the records are" placeholder:"NAME" default:"${user}" env:"ONCEKEY_OPERATOR" help:"Your name in the log of changes. A page knows it."`
	Timeout  time.Duration `group:"Where the records are" default:"30s" help:"For each call."`

	closers []func()
}

// close ends the connections.
func (p *place) close() {
	for _, end := range p.closers {
		end()
	}
}

// page returns the page at the URL, or one in this process on the store.
func (p *place) page(out *printer) (*page, error) {
	if p.URL != "" {
		if p.Redis != "" || p.Postgres != "" {
			return nil, usage("--url is given with --redis or --postgres: give the page, or its store")
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
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, usage("--url: give the http or https URL of an inspector page, such as https://host/ops/idempotency/") // p.URL can have a password
	}
	header := make(http.Header)
	if p.Token != "" {
		header.Set("Authorization", "Bearer "+p.Token)
	}
	return &page{base: base, header: header, client: &http.Client{Transport: out.network, Timeout: p.Timeout}}, nil
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
	operator := inspector.Operator{Name: p.As, May: inspector.Read | inspector.Reveal | inspector.Settle}
	handler, err := inspector.New(engine, func(*http.Request) (inspector.Operator, error) { return operator, nil }, inspector.Derived(p.Derive...))
	if err != nil {
		return nil, err
	}
	return &page{base: &url.URL{Scheme: "http", Host: "this-process", Path: "/"}, client: &http.Client{Transport: inProcess{handler}, Timeout: p.Timeout}}, nil
}

// declare gives the program's policies to the engine.
func (p *place) declare(engine *core.Engine) error {
	if p.Policies == "" {
		return nil
	}
	table, err := tablefile.Read(p.Policies)
	if err != nil {
		return usageError{err}
	}
	for _, row := range table.Declarations() {
		route, err := engine.Route(policy.From(row.Policy))
		if err != nil {
			return usageError{err}
		}
		route.Declare(core.Endpoint{Method: row.Method, Pattern: row.Pattern})
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
		return nil, usage("--redis: %v", withoutPassword(p.Redis, err))
	}
	p.closers = append(p.closers, func() { _ = client.Close() })
	return redisstore.New(client, redisstore.Prefix(p.Prefix)), nil
}

// redisClient returns a client of one server, of a Cluster or of Sentinel.
func redisClient(address string) (redis.UniversalClient, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
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

// withoutPassword returns the error of a URL, or another one in its place if a part of the
// password may be in its text: a bare / ? # or @ in the password ends the host too early.
func withoutPassword(address string, err error) error {
	parsed, wrong := url.Parse(address)
	if wrong != nil || strings.Contains(parsed.Path+parsed.RawQuery+parsed.Fragment, "@") {
		return errors.New("it is no URL such as redis://user:secret@host:6379/0: in the secret write / ? # @ and % as %2F %3F %23 %40 and %25")
	}
	return err
}

// postgres opens the store in PostgreSQL. It connects with the first call.
func (p *place) postgres() (*pgstore.Store, error) {
	pool, err := p.pool()
	if err != nil {
		return nil, err
	}
	return pgstore.New(pool, pgstore.Schema(p.Schema)), nil
}

func (p *place) pool() (*pgxpool.Pool, error) {
	if p.Postgres == "" {
		return nil, usage("give --postgres: only PostgreSQL has tables and expired rows")
	}
	config, err := pgxpool.ParseConfig(p.Postgres)
	if err != nil {
		return nil, usage("--postgres: the DSN cannot be read: %s", reasonOf(err))
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, usage("--postgres: %v", err)
	}
	p.closers = append(p.closers, pool.Close)
	return pool, nil
}

// reasonOf returns pgx's error without the DSN before it, in which pgx does not find every
// password.
func reasonOf(err error) string {
	text := err.Error()
	const end = "`: " // of the DSN
	if at := strings.LastIndex(text, end); at >= 0 {
		return text[at+len(end):]
	}
	return text
}

// anyPage returns the page at the URL, or one on an empty store, for commands that only
// compute.
func (p *place) anyPage(out *printer) (*page, error) {
	if p.URL != "" {
		return p.remote(out)
	}
	return p.local(memstore.New(), out)
}
