package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/oncekey/oncekey/core/internal/examination"
	"github.com/oncekey/oncekey/core/storage"
)

var _ storage.Examiner = (*Store)(nil)

// Examine implements [storage.Examiner]. It reads the server's settings, its state, and
// a few keys under the prefix, tries each command that the store needs, and takes a key
// of its own through a whole request. On a cluster it reads the settings of one master.
// A check that this user may not make is [storage.Skipped], and names the right.
func (s *Store) Examine(ctx context.Context) []storage.Finding {
	e := &examiner{store: s}
	clock := func(ctx context.Context) (time.Time, error) { return s.client.Time(ctx).Result() }
	return examination.Run(ctx, examination.Server{Reach: e.connect, Trip: e.trip, Clock: clock}, s,
		examination.One("version", e.version),
		examination.One("client", e.client),
		examination.One("cluster", e.cluster),
		examination.One("eviction policy", e.eviction),
		examination.One("memory", e.memory),
		examination.One("largest value", e.largest),
		examination.One("persistence", e.persistence),
		examination.One("replication", e.replication),
		examination.One("rights", e.rights),
		examination.One("rights of operators", e.operators),
		examination.One("prefix", e.prefix),
	)
}

const (
	grantInfo   = "grant the right to see it: ACL SETUSER <user> +info"
	grantConfig = "grant the right to see it: ACL SETUSER <user> +config|get"
	// The parts of maxmemory in use, in percent, above which new keys are at risk.
	muchMemory, tooMuchMemory = 80, 95
	oldestRelease             = 7
	allSlots                  = "16384"
)

// examiner has the sources of several checks. A text is empty where the user may not
// read the source.
type examiner struct {
	store    *Store
	info     map[string]string
	settings map[string]string
	// why the sources could not be read
	noInfo, noSettings error
}

// connect reads the sources. A server that refuses them for want of a right can be reached, and one
// that refuses the password cannot.
func (e *examiner) connect(ctx context.Context) error {
	_, err := bounded(ctx, e.store, func(ctx context.Context) (struct{}, error) {
		var text string
		if text, e.noInfo = e.store.client.Info(ctx).Result(); e.noInfo == nil {
			e.info = membersOf(text)
		}
		e.settings = map[string]string{}
		for _, name := range []string{"maxmemory*", "append*", "save", bulkSetting, outputSetting} {
			found, err := e.store.client.ConfigGet(ctx, name).Result()
			if err != nil {
				e.noSettings = err
			}
			maps.Copy(e.settings, found)
		}
		return struct{}{}, nil
	})
	if sentinel := "sentinel"; e.info["redis_mode"] == sentinel || e.info["server_mode"] == sentinel { // of Redis, and of Valkey
		return errSentinel
	}
	if err == nil {
		err = e.trip(ctx)
	}
	if isServerError(err) && (e.noInfo == nil || isForbidden(e.noInfo)) { // a right is missing
		return nil
	}
	return err
}

var errSentinel = errors.New("the server is a sentinel: use the client of redis.NewFailoverClient, or a URL with ?master_name=name for the command")

// trip is a command that each user of the store may send.
func (e *examiner) trip(ctx context.Context) error {
	_, err := bounded(ctx, e.store, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.store.client.GetRange(ctx, e.store.prefix+checkKey, 0, 0).Err()
	})
	return err
}

// membersOf reads the lines of INFO and CLUSTER INFO.
func membersOf(text string) map[string]string {
	members := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, is := strings.Cut(strings.TrimSpace(line), ":"); is {
			members[name] = value
		}
	}
	return members
}

func (e *examiner) unseen(check string) storage.Finding {
	return examination.Skipped(check, fmt.Sprintf("could not see it: %v", e.noInfo), grantInfo)
}

func (e *examiner) version(_ context.Context, check string) storage.Finding {
	version := e.info["redis_version"]
	if version == "" {
		return e.unseen(check)
	}
	seen := "Redis " + version
	if valkey := e.info["valkey_version"]; valkey != "" {
		seen = "Valkey " + valkey + ", as Redis " + version
	}
	release, _, _ := strings.Cut(version, ".")
	if number, err := strconv.Atoi(release); err != nil || number < oldestRelease {
		return examination.Mend(check, seen, "upgrade: the store needs Redis 7.0 or newer")
	}
	return examination.Good(check, seen)
}

// client checks the client. New has refused a *redis.Ring.
func (e *examiner) client(_ context.Context, check string) storage.Finding {
	var timeouts bool
	switch client := e.store.client.(type) {
	case *redis.Client:
		timeouts = client.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		timeouts = client.Options().ContextTimeoutEnabled
	default:
		return examination.Look(check, fmt.Sprintf("a %T, whose settings could not be seen", client),
			"see the settings of AutoPipeline in the package comment")
	}
	seen := fmt.Sprintf("%T, ContextTimeoutEnabled: %t", e.store.client, timeouts)
	if !timeouts {
		return examination.Look(check, seen, "set ContextTimeoutEnabled: without it a goroutine waits on after the end of a call")
	}
	return examination.Good(check, seen)
}

func (e *examiner) cluster(ctx context.Context, check string) storage.Finding {
	_, isClient := e.store.client.(reloader)
	switch enabled := e.info["cluster_enabled"]; {
	case enabled == "":
		return e.unseen(check)
	case enabled == "0":
		return examination.Good(check, "the server is no part of a cluster")
	case !isClient:
		return examination.Mend(check, fmt.Sprintf("the server is part of a cluster, and the client is a %T", e.store.client),
			"give New a *redis.ClusterClient: this client reaches the keys of one master only")
	}
	text, err := e.store.client.ClusterInfo(ctx).Result()
	if err != nil {
		return examination.Skipped(check, fmt.Sprintf("could not see the slots: %v", err), "grant the right to see it: ACL SETUSER <user> +cluster|info")
	}
	state := membersOf(text)
	seen := fmt.Sprintf("state %s, %s of %s slots are served", state["cluster_state"], state["cluster_slots_ok"], allSlots)
	if state["cluster_state"] != "ok" || state["cluster_slots_ok"] != allSlots {
		return examination.Mend(check, seen, "assign the slots, and mend the masters that are down: their keys get 503")
	}
	return examination.Good(check, seen)
}

// setting returns a setting, which INFO may have under another name.
func (e *examiner) setting(name, inInfo string) (value string, seen bool) {
	if value, seen = e.settings[name]; !seen {
		value, seen = e.info[inInfo]
	}
	return value, seen
}

func (e *examiner) eviction(_ context.Context, check string) storage.Finding {
	limit, seenLimit := e.setting("maxmemory", "maxmemory")
	policy, seenPolicy := e.setting("maxmemory-policy", "maxmemory_policy")
	if !seenLimit || !seenPolicy {
		return examination.Skipped(check, fmt.Sprintf("could not see it: %v", e.noSettings), grantConfig)
	}
	seen := fmt.Sprintf("maxmemory-policy %s, maxmemory %s", policy, limit)
	switch {
	case mayEvict(limit, policy):
		return examination.Mend(check, seen, adviceOfEviction)
	case policy != noEviction:
		return examination.Look(check, seen, "set maxmemory-policy to noeviction before a maxmemory is set")
	default:
		return examination.Good(check, seen)
	}
}

func (e *examiner) memory(_ context.Context, check string) storage.Finding {
	used, err := strconv.ParseUint(e.info["used_memory"], 10, 64)
	if err != nil {
		return e.unseen(check)
	}
	text, _ := e.setting("maxmemory", "maxmemory")
	limit, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return e.unseen(check)
	case limit == 0:
		return examination.Good(check, fmt.Sprintf("%d bytes in use, without a limit", used))
	}
	const all = 100
	part := used * all / limit
	seen := fmt.Sprintf("%d of %d bytes in use, %d %%", used, limit, part)
	switch {
	case part > tooMuchMemory:
		return examination.Mend(check, seen, "raise maxmemory: a full server refuses new keys, or evicts records")
	case part > muchMemory:
		return examination.Look(check, seen, "raise maxmemory, or shorten the policies' TTL")
	default:
		return examination.Good(check, seen)
	}
}

// largest names the limit of a response with its header. The room is for the line before it.
func (e *examiner) largest(_ context.Context, check string) storage.Finding {
	const room = 64 << 10
	limit, err := strconv.Atoi(e.settings[bulkSetting])
	if err != nil {
		return examination.Skipped(check, fmt.Sprintf("could not see it: %v", e.noSettings), grantConfig)
	}
	seen := fmt.Sprintf("%s %d", bulkSetting, limit)
	if limit < smallestBulk+room {
		return examination.Mend(check, seen, "raise it above the largest MaxResponseBytes of the policies: a larger response is not kept, and its retries get not_replayable")
	}
	if hard := outputLimit(e.settings[outputSetting]); hard > 0 && hard < smallestBulk+room {
		return examination.Mend(check, fmt.Sprintf("%s normal %d", outputSetting, hard),
			"set the limits of normal clients to 0: Redis ends each connection that reads a larger record, and its retries get 503")
	}
	return examination.Good(check, seen)
}

// outputSetting limits what the server holds for a client that it answers.
const outputSetting = "client-output-buffer-limit"

// outputLimit returns the hard limit of normal clients, or 0 for none.
func outputLimit(setting string) int {
	_, limits, _ := strings.Cut(setting, "normal ")
	hard, _, _ := strings.Cut(limits, " ")
	limit, _ := strconv.Atoi(hard) // without a right it is not known
	return limit
}

func (e *examiner) persistence(_ context.Context, check string) storage.Finding {
	appends, seenAppends := e.settings["appendonly"]
	if !seenAppends {
		enabled, seen := e.info["aof_enabled"]
		if !seen {
			return examination.Skipped(check, fmt.Sprintf("could not see it: %v", e.noSettings), grantConfig)
		}
		appends = map[string]string{"0": "no", "1": "yes"}[enabled]
	}
	sync, seenSync := e.settings["appendfsync"]
	switch {
	case appends != "yes":
		return examination.Mend(check, "appendonly "+appends,
			"set appendonly yes: a restart loses records, and their requests run twice; or use tieredstore with a durable store")
	case !seenSync:
		return examination.Skipped(check, fmt.Sprintf("appendonly yes; could not see appendfsync: %v", e.noSettings), grantConfig)
	case sync != "always":
		return examination.Look(check, "appendonly yes, appendfsync "+sync,
			"a crash of the machine loses the last second, or more with no: set appendfsync always, or use tieredstore with a durable store")
	default:
		return examination.Good(check, "appendonly yes, appendfsync always")
	}
}

func (e *examiner) replication(_ context.Context, check string) storage.Finding {
	role := e.info["role"]
	connected, err := strconv.Atoi(e.info["connected_slaves"])
	wanted := e.store.replicas.wanted
	seen := fmt.Sprintf("role %s, %d replicas, WaitReplicas %d", role, connected, wanted)
	switch {
	case role == "" || err != nil:
		return e.unseen(check)
	case role != "master":
		return examination.Mend(check, seen, "connect to the master: a replica refuses claims")
	case wanted > connected:
		return examination.Mend(check, seen, "start the replicas: each claim fails without them")
	case wanted == 0 && connected > 0:
		return examination.Look(check, seen, "a failover may lose the last claims and responses: see WaitReplicas")
	default:
		return examination.Good(check, seen)
	}
}
