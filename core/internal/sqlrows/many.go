package sqlrows

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// LongestBody is the longest body in a statement of several records: a longer one would
// delay the other calls, and gains little from a shared commit.
const LongestBody = 64 << 10

// ManyGuard is run before a statement of several records, in its transaction. A prepared
// statement keeps its plan, so the plan may not read the whole table, whatever the planner
// knows of its size, and no plan is made anew for each list of keys. All wait for a locked
// row, so they do not wait for long.
const ManyGuard = `SELECT set_config('lock_timeout', '20ms', true), set_config('enable_seqscan', 'off', true), ` +
	`set_config('plan_cache_mode', 'force_generic_plan', true)`

// Many is a statement of PostgreSQL for several records, each with arguments of its own. It
// is made of the statement for one record.
type Many Statement

// ClaimMany returns the statement that claims keys without a record, and reads those that
// are finished. It returns the columns of Read after a key, which are null for a key that it
// has claimed. It leaves the other keys out: they are in progress, released or expired, have
// a long body, or are lost to another caller.
func (f *Form) ClaimMany(table string) Many {
	columns, values, _ := strings.Cut(claimStatement, "VALUES (")
	return f.many(table, func(each func(string) string) string {
		selected := each(strings.TrimSuffix(values, ")"))
		return `
WITH found AS (` + finishedOf("k.its_key") + `
), won AS (` + columns + `
	SELECT ` + selected + ` FROM {lists} WHERE NOT EXISTS (SELECT FROM found WHERE record_key = k.its_key)` + f.OnConflict + `
	RETURNING record_key
)
SELECT record_key, a, b, sketch FROM found UNION ALL SELECT record_key, ` + f.noText("(SELECT count(*) FROM won) = cardinality($1)") + `, NULL::bytea, NULL::bytea FROM won`
	})
}

// ReadMany returns the part of ClaimMany that reads, for keys that have a record most likely. It
// takes the server less than half as long.
func (f *Form) ReadMany(table string) Many {
	return f.many(table, func(each func(string) string) string { return finishedOf(each(":key")) })
}

// finishedOf selects the finished records of a list of keys.
func finishedOf(key string) string {
	return `
	SELECT record_key, {whole}
	FROM {lists}, LATERAL (SELECT * FROM {table} WHERE record_key = ` + key + ` OFFSET 0) AS r
	WHERE state IN ('completed', 'failed', 'unreplayable', 'gone') AND expires_at > {now} AND (octet_length(body) > 65536) IS NOT TRUE`
}

// firstOrRead is claimStatement where there is no row, and readStatement where there is one.
func (f *Form) firstOrRead() string {
	columns, values, _ := strings.Cut(claimStatement, "VALUES (")
	return `
WITH found AS (
	SELECT {whole} FROM {table} WHERE record_key = :key
), won AS (` + columns + `
	SELECT ` + strings.TrimSuffix(values, ")") + ` WHERE NOT EXISTS (SELECT FROM found)` + OnConflict + `
	RETURNING record_key
)
SELECT a, b, sketch FROM found UNION ALL SELECT ` + f.noText("true") + `, NULL::bytea, NULL::bytea FROM won`
}

// noText is null. With AsynchronousClaims it lets the statement's transaction not wait for its
// commit, under a condition.
func (f *Form) noText(condition string) string {
	if !f.AsynchronousClaims {
		return `NULL::text`
	}
	return `CASE WHEN ` + condition + ` THEN nullif(set_config('synchronous_commit', 'off', true), 'off') END`
}

// CompleteMany returns the statement that completes the records whose claims have not
// changed. It returns their keys. A row that changes while the statement waits for it has
// another ctid, and is left out.
func (f *Form) CompleteMany(table string) Many {
	set, where, _ := strings.Cut(completeStatement, "WHERE ")
	return f.many(table, func(each func(string) string) string {
		return strings.Replace(each(set), "UPDATE {table} SET", "UPDATE {table} AS r SET", 1) + `
FROM {lists}, LATERAL (SELECT t.ctid AS place, t.tableoid AS part FROM {table} AS t WHERE t.record_key = k.its_key OFFSET 0) AS found
WHERE r.ctid = place AND r.tableoid = part AND ` + each(where) + `
RETURNING record_key`
	})
}

// many makes a statement of several records from one that names each parameter by each.
// {lists} are the lists of arguments.
func (f *Form) many(table string, build func(each func(string) string) string) (m Many) {
	text := build(func(text string) string {
		var out strings.Builder
		for {
			before, name, after, found := cutParameter(text)
			out.WriteString(before)
			if !found {
				return out.String()
			}
			text = after
			if p := parameters[name]; p == pNow {
				out.WriteString(":now")
			} else {
				if !slices.Contains(m.order, p) {
					m.order = append(m.order, p)
				}
				out.WriteString("k.its_" + name)
			}
		}
	})
	text = strings.NewReplacer("{lists}", m.lists(), "{now}", ":now").Replace(text)
	m.Text = f.statement(text, table).Text
	return m
}

// lists is the table of the arguments.
func (m *Many) lists() string {
	names := map[parameter]string{}
	for name, p := range parameters {
		names[p] = name
	}
	var types, columns []string
	for i, p := range m.order {
		types = append(types, "$"+strconv.Itoa(i+1)+"::"+cmp.Or(arrays[p], "bigint")+"[]")
		columns = append(columns, "its_"+names[p])
	}
	return "unnest(" + strings.Join(types, ", ") + ") AS k (" + strings.Join(columns, ", ") + ")"
}

// Values are the lists of arguments, as []*string, [][]byte and []*int64.
func (m *Many) Values(all []*Arguments) []any {
	values := make([]any, len(m.order))
	for i, p := range m.order {
		switch arrays[p] {
		case "text":
			values[i] = pointers[string](all, p)
		case "bytea":
			list := make([][]byte, len(all))
			for at, a := range all {
				list[at], _ = a[p].([]byte)
			}
			values[i] = list
		default:
			values[i] = pointers[int64](all, p)
		}
	}
	return values
}

// pointers are the values of a parameter, or nil for null.
func pointers[T any](all []*Arguments, p parameter) []*T {
	list := make([]*T, len(all))
	for at, a := range all {
		if value, is := a[p].(T); is {
			list[at] = &value
		}
	}
	return list
}

// Claiming are the arguments of a key's first claim.
func Claiming(c storage.Claim) *Arguments {
	return claiming(&storage.Lease{Claim: c, Attempt: 1})
}

// Clone returns arguments that share no memory with the call's.
func (a *Arguments) Clone() *Arguments {
	own := *a
	for i, value := range own {
		if bytes, is := value.([]byte); is {
			own[i] = slices.Clone(bytes)
		}
	}
	return &own
}
