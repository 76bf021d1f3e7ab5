"""General-purpose asyncio tools. They know nothing of objects or stores."""
