"""Names and hosts of requests: trees and classes of names, prefixes and networks."""
