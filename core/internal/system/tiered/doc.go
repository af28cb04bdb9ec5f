// Package tiered tests tieredstore over a real Redis and a real PostgreSQL. It stands here and not beside the store because
// the root module requires no PostgreSQL driver.
package tiered
