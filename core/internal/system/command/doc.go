// Package command contains only tests. They run the command oncekey as a program over a
// real Redis, a real PostgreSQL and both. The tests beside the command hold its output.
package command
