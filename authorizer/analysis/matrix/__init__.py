"""The matrix of principals and resource patterns, its changes and its teams."""
