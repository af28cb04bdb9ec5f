// Package records has the parts of a store that do not depend on its database: how a
// record is written as text, how an unreadable one is reported, how expired ones are
// removed, and the limits of a listing. It imports the contract (core/storage) and nothing
// of the engine. Package examination has the checks of a store's server, and package schema
// those of a database's table.
package records
