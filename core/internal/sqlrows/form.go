package sqlrows

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Form is the part of the statements that differs between databases.
type Form struct {
	// Now is the expression for the time in microseconds since 1970, in UTC. Empty: the
	// process passes its own time.
	Now string
	// AsText: most columns of a row are read as one text. Each column costs a replay up to
	// half a microsecond in every driver, so that columns would cost a tenth on SQLite. A
	// server of MariaDB takes longer to build the text: columns save a tenth of a replay.
	AsText bool
	// Hex is the expression for the bytes of a column, %s, in hexadecimal digits, for AsText.
	Hex string
	// Numbered: a parameter is $1 instead of a question mark.
	Numbered bool
	// Div is the operator of the division of integers.
	Div string
	// OnConflict ends an INSERT that is to add no row where the key has one. Without
	// OnConflict the INSERT fails, see Records.Duplicate.
	OnConflict string
	// SkipsLocked: a sweep leaves out rows that are locked.
	SkipsLocked bool
	// FirstReads: a claim of a key that seems new is one statement with its read.
	FirstReads bool
	// AsynchronousClaims: the claim of a new key does not wait for its commit, in FirstOrRead
	// and in a batch of new keys only.
	AsynchronousClaims bool
	// Limited adds the limits of the database to a statement, or is nil.
	Limited func(text string) string
}

// OnConflict is the Form's in PostgreSQL and SQLite.
const OnConflict = ` ON CONFLICT (record_key) DO NOTHING`

// PostgreSQL is the form of PostgreSQL 13 or newer.
func PostgreSQL() Form {
	return Form{
		Now:        `(date_part('epoch', clock_timestamp()) * 1000000)::bigint`, // extract computes with slow decimals
		AsText:     true,
		Hex:        "encode(%s, 'hex')",
		Numbered:   true,
		Div:        "/",
		OnConflict: OnConflict,

		SkipsLocked: true,
	}
}

// Name names a statement.
type Name int

// The statements. Read, Head, Lock and List are SELECTs of rows, and Overdue is one of keys.
const (
	Read Name = iota
	Head
	Lock
	List
	First
	// FirstOrRead is First for a key without a row, and Read for any other. A row that is
	// new has no columns.
	FirstOrRead
	Insert
	Replace
	Complete
	Extend
	ReleaseFirst
	ReleaseLater
	ReleaseSteps
	Forget
	Happened
	DidNotHappen
	Overdue
	// Names is the number of names.
	Names
)

// Statement is a statement in the words of a database.
type Statement struct {
	Text  string
	order []parameter
}

// Values are the arguments of the statement, in the order of their places.
func (s *Statement) Values(a *Arguments) []any {
	values := make([]any, len(s.order))
	for i, p := range s.order {
		values[i] = a[p]
		if p == pNow {
			values[i] = time.Now().UnixMicro()
		}
	}
	return values
}

// Statements returns all statements for a table.
func (f *Form) Statements(table string) (all [Names]Statement) {
	for name, text := range [Names]string{
		Read: readStatement, Head: headStatement, Lock: lockStatement, List: listStatement,
		First: claimStatement + f.OnConflict, Insert: insertStatement + f.OnConflict, Replace: replaceStatement,
		Complete: completeStatement, Extend: extendStatement,
		ReleaseFirst: releaseFirstStatement, ReleaseLater: releaseLaterStatement, ReleaseSteps: releaseStepsStatement,
		Forget: forgetStatement, Happened: happenedStatement, DidNotHappen: didNotHappenStatement, Overdue: overdueStatement,
		FirstOrRead: f.firstOrRead(),
	} {
		all[name] = f.statement(text, table)
	}
	return all
}

// Probes need each right of a store, and change no row.
func (f *Form) Probes(table string) (texts []string) {
	for _, text := range probeStatements {
		texts = append(texts, f.statement(text, table).Text)
	}
	return texts
}

// statement turns a statement with named parameters (":key") into one of the database.
func (f *Form) statement(text, table string) (s Statement) {
	var out strings.Builder
	numbers := map[parameter]int{}
	rest := f.expand(text, table)
	for {
		before, name, after, found := cutParameter(rest)
		out.WriteString(before)
		if !found {
			s.Text = out.String()
			return s
		}
		rest = after
		p, known := parameters[name]
		switch {
		case !known:
			panic("sqlrows: no parameter is named " + strconv.Quote(name) + " in " + text)
		case p == pNow && f.Now != "":
			out.WriteString(f.Now)
		case !f.Numbered:
			out.WriteByte('?')
			s.order = append(s.order, p)
		default:
			if numbers[p] == 0 {
				s.order = append(s.order, p)
				numbers[p] = len(s.order)
			}
			out.WriteString("$" + strconv.Itoa(numbers[p]))
		}
	}
}

// expand fills the place-holders for columns and names in.
func (f *Form) expand(text, table string) string {
	head, whole, listed := columnsHead, columnsWhole, columnsHead
	if f.AsText {
		head, whole, listed = textHead, textWhole, textListed
	}
	if f.Limited != nil {
		text = f.Limited(text)
	}
	text = strings.NewReplacer("{head}", head, "{whole}", whole, "{listed}", listed).Replace(text)
	text = strings.NewReplacer("{table}", table, "{div}", f.Div).Replace(text)
	for _, column := range []string{"token", "fingerprint", "digest"} {
		text = strings.ReplaceAll(text, "{hex "+column+"}", fmt.Sprintf(f.Hex, column))
	}
	return text
}

// cutParameter cuts a text around the name of its first parameter, which follows a colon. Two
// colons are a cast.
func cutParameter(text string) (before, name, after string, found bool) {
	for from := 0; ; {
		at := strings.IndexByte(text[from:], ':')
		switch at += from; {
		case at < from:
			return text, "", "", false
		case strings.HasPrefix(text[at:], "::"):
			from = at + len("::")
		default:
			after = strings.TrimLeft(text[at+1:], "abcdefghijklmnopqrstuvwxyz_")
			return text[:at], text[at+1 : len(text)-len(after)], after, true
		}
	}
}

// InTable replaces the place-holders for a table, for its name without the schema, and for the
// database of MySQL that has it. Each stands for a constant: MariaDB reads the files of all
// tables of all databases for a row of information_schema that another row names.
func InTable(table, text string) string {
	database, name := NameOf(table)
	if database == "" {
		database = "database()"
	} else {
		database = "'" + database + "'"
	}
	return strings.NewReplacer("{table}", table, "{name}", name, "{database}", database).Replace(text)
}

// NameOf returns the schema of a table, or "", and its name there.
func NameOf(table string) (schema, name string) {
	if schema, name, qualified := strings.Cut(table, "."); qualified {
		return schema, name
	}
	return "", table
}
